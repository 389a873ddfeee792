"""What a keyboard and a screen reader meet on a page, asked of a real browser.

In: an open page. Out: text without enough contrast, the order of the tab key, and the browser's own
tree of accessibility. Judges nothing by itself but contrast.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from playwright.sync_api import Page

_CONTRAST = """least => {
  const numbers = (text) => (text.match(/[\\d.]+/g) || []).map(Number);
  const light = ([r, g, b]) => {
    const one = (v) => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
    return 0.2126 * one(r) + 0.7152 * one(g) + 0.0722 * one(b);
  };
  const behind = (node) => {
    for (let at = node; at; at = at.parentElement) {
      const colour = numbers(getComputedStyle(at).backgroundColor);
      if (colour.length === 3 || colour[3] === 1) return colour;
    }
    return [255, 255, 255];
  };
  const found = [];
  for (const node of document.querySelectorAll("body *")) {
    const own = [...node.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
    const style = getComputedStyle(node);
    const box = node.getBoundingClientRect();
    const svg = node.ownerSVGElement;
    const isHidden = style.visibility === "hidden" || box.width <= 1;
    if (!own || isHidden || node.matches("script, style, title")) continue;
    let under = behind(svg ? svg.parentElement : node);
    // A label that is grouped with a coloured area stands on that area.
    const group = svg && node.parentElement.matches("g") ? node.parentElement : null;
    const area = group?.querySelector(":scope > rect");
    if (area) under = numbers(getComputedStyle(area).fill);
    const colour = numbers(svg ? style.fill : style.color);
    const [a, b] = [light(colour), light(under)].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    const text = node.textContent.trim().slice(0, 40);
    if (ratio < least) found.push(`${ratio.toFixed(1)} ${node.tagName}: ${text}`);
  }
  return found;
}"""


class Stop(NamedTuple):
    """Where the tab key stops."""

    role: str
    name: str
    top: float
    has_ring: bool


def faint_texts(page: Page, least: float = 4.5) -> list[str]:
    """Texts whose contrast with what is behind them is less than WCAG asks for."""
    found: list[str] = page.evaluate(_CONTRAST, least)
    return found


def tab_stops(page: Page, most: int = 60) -> list[Stop]:
    """The elements that the tab key visits, in order, from the top of the page to its end."""
    page.evaluate("document.activeElement.blur(); scrollTo(0, 0)")
    stops: list[Stop] = []
    for _ in range(most):
        page.keyboard.press("Tab")
        told: Any = page.evaluate(
            """() => {
              const node = document.activeElement;
              if (!node || node === document.body) return null;
              const style = getComputedStyle(node);
              const own = node.labels?.[0] || node;
              return [node.getAttribute("role") || node.tagName.toLowerCase(),
                node.getAttribute("aria-label") || own.textContent.trim(),
                node.getBoundingClientRect().top + scrollY, style.outlineStyle !== "none"];
            }"""
        )
        if told is None:
            break
        stops.append(Stop(*told))
    return stops


def spoken(page: Page) -> list[tuple[str, str]]:
    """Role and name of everything that a screen reader can come to, in order."""
    session = page.context.new_cdp_session(page)
    nodes = session.send("Accessibility.getFullAXTree")["nodes"]
    session.detach()
    return [
        (node["role"]["value"], node.get("name", {}).get("value", ""))
        for node in nodes
        if not node.get("ignored")
    ]
