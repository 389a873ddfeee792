"""The timeline: a picture of a history.

In: a log. Out: SVG, PNG, or an HTML page with a slider. Draws what `visibility` decided.
"""
