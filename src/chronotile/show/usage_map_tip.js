// A rectangle says by its label what it stands for.
const tip = document.getElementById("tip");
const map = document.getElementById("map");
map.addEventListener("pointermove", (event) => {
  const words = event.target.getAttribute?.("aria-label");
  tip.hidden = !words;
  tip.textContent = words;
  tip.style.left = `${Math.max(Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8), 0)}px`;
  tip.style.top = `${Math.max(Math.min(event.clientY + 14, innerHeight - tip.offsetHeight - 8), 0)}px`;
});
map.addEventListener("pointerleave", () => { tip.hidden = true; });
document.body.dataset.ready = "yes";
