// Blocks: nodes whose names begin alike, as "stage1_unit2_" does. A tree, of which any part may be folded into one box.
'use strict';

// names: of all nodes of both graphs. Gives the root {name, prefix, children, parent, folded}, and block(name): the innermost one.
function findBlocks(names) {
  const root = { name: '', prefix: '', children: new Map(), count: 0, parent: null, folded: false };
  for (const name of names) {
    const parts = name.split(/(?<=[^_/.:][_/.:]+)(?=[^_/.:])/);
    let at = root;
    ++root.count;
    for (const part of parts.slice(0, -1)) {
      if (!at.children.has(part)) at.children.set(part, { name: part, prefix: at.prefix + part, children: new Map(), count: 0, parent: at, folded: false });
      at = at.children.get(part);
      ++at.count;
    }
  }
  const clean = (block) => {
    for (const [part, child] of [...block.children]) {
      clean(child);
      if (child.count >= 3 && child.count !== block.count) continue;
      // A pair, or a block that says no more than the one around it: its children move up.
      block.children.delete(part);
      for (const grandchild of child.children.values()) {
        grandchild.parent = block;
        grandchild.name = grandchild.prefix.slice(block.prefix.length);
        block.children.set(grandchild.name, grandchild);
      }
    }
  };
  clean(root);
  return root;
}

// The innermost block around a name.
function blockOf(root, name) {
  let at = root;
  for (;;) {
    let inner = null;
    for (const child of at.children.values())
      if (name.startsWith(child.prefix) && name.length > child.prefix.length) { inner = child; break; }
    if (!inner) return at;
    at = inner;
  }
}

// The outermost folded block around a block, or null.
function foldedAround(block) {
  let found = null;
  for (let at = block; at; at = at.parent) if (at.folded) found = at;
  return found;
}

function eachBlock(block, visit, depth = 0) {
  for (const child of block.children.values()) {
    visit(child, depth);
    eachBlock(child, visit, depth + 1);
  }
}

// Opens level after level while no more than `most` boxes are seen.
function foldTo(root, countVisible, most) {
  eachBlock(root, (block) => { block.folded = true; });
  let level = [...root.children.values()];
  while (level.length) {
    for (const block of level) block.folded = false;
    if (countVisible() > most) {
      for (const block of level) block.folded = true;
      return;
    }
    level = level.flatMap((block) => [...block.children.values()]);
  }
}

if (typeof module !== 'undefined') module.exports = { findBlocks, blockOf, foldedAround, eachBlock, foldTo };
