// Search over names and their first sentences. INDEX: [name, kind, page, text] of everything in the reference, from index.js.
"use strict";
const box = document.getElementById("search"), found = document.getElementById("found");
let chosen = -1;

// Smaller is better: the name itself, a name that begins so, a part of a name that does, a name that holds it, a text that holds all words.
function rank(entry, words) {
  const name = entry[0].toLowerCase(), last = name.split(/::|\./).pop(), text = entry[3].toLowerCase();
  const word = words.join(" ");
  if (last === word || name === word) return 0;
  if (last.startsWith(word)) return 1;
  if (last.split("_").some(part => part.startsWith(word))) return 2;
  if (name.includes(word)) return 3;
  return words.every(w => name.includes(w) || text.includes(w)) ? 4 : -1;
}

function show() {
  const words = box.value.toLowerCase().split(/\s+/).filter(Boolean);
  chosen = -1;
  found.replaceChildren();
  if (!words.length) return;
  const hits = [];
  INDEX.forEach(entry => { const r = rank(entry, words); if (r >= 0) hits.push([r, entry[0].length, entry]); });
  hits.sort((a, b) => a[0] - b[0] || a[1] - b[1]);
  for (const [, , [name, kind, page, text]] of hits.slice(0, 40)) {
    const link = document.createElement("a"), title = document.createElement("b"), about = document.createElement("span");
    link.href = page;
    title.textContent = name;
    about.textContent = "  " + kind + (text ? ": " + text : "");
    link.append(title, about);
    found.append(link);
  }
  if (!hits.length) found.textContent = "nothing is called so";
}

box.addEventListener("input", show);
box.addEventListener("keydown", event => {
  const links = [...found.querySelectorAll("a")];
  if (event.key === "Escape") { box.value = ""; show(); }
  if (event.key === "Enter" && links.length) location.href = links[Math.max(chosen, 0)].href, found.replaceChildren();
  if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
  event.preventDefault();
  chosen = Math.max(0, Math.min(links.length - 1, chosen + (event.key === "ArrowDown" ? 1 : -1)));
  links.forEach((link, i) => link.classList.toggle("chosen", i === chosen));
  links[chosen]?.scrollIntoView({block: "nearest"});
});
document.addEventListener("keydown", event => {
  if (event.key === "/" && document.activeElement !== box) { event.preventDefault(); box.focus(); }
});
document.addEventListener("click", event => { if (!found.contains(event.target)) found.replaceChildren(); });
const asked = new URLSearchParams(location.search).get("q");
if (asked) { box.value = asked; show(); }
