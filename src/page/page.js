// The page: two graphs side by side, a tree of blocks, what is known of a node, and the plan's arena over the steps.
'use strict';

const data = JSON.parse(document.getElementById('data').textContent);
const element = (id) => document.getElementById(id);
const BOX_HEIGHT = 38, MOST_AT_FIRST = 160, LEAST_READABLE = 0.42;
const SELECTED = '#d9480f', LINKED = '#1971c2', FOUND = '#f2b705';

// ---- what is drawn: boxes that are nodes or folded blocks
const root = findBlocks(data.sides.flatMap((side) => side.nodes.map((node) => node.name)));
const sides = data.sides.map((side, index) => makeSide(side, index));
const linked = linkNodes();  // linked[side][node]: nodes of the other side
let selected = null;         // {side, nodes: Set, box}
let found = [new Set(), new Set()], matches = [], match = -1;

function makeSide(side, index) {
  const canvas = element('graph-' + index);
  const innermost = side.nodes.map((node) => blockOf(root, node.name));
  element('label-' + index).textContent = side.label;
  return { index, nodes: side.nodes, outputs: new Set(side.outputs), innermost, canvas, context: canvas.getContext('2d'), scale: 1, x: 0, y: 0, boxes: [], boxOf: [], lines: [] };
}

function linkNodes() {
  const forth = sides[0].nodes.map(() => []), back = sides[1].nodes.map(() => []);
  data.links.forEach((befores, after) => befores.forEach((before) => { back[after].push(before); forth[before].push(after); }));
  return [forth, back];
}

const hues = new Map();
function hueOf(op) {
  if (!hues.has(op)) {
    let hash = 7;
    for (const c of op) hash = (hash * 31 + c.charCodeAt(0)) % 3600;
    hues.set(op, (hash * 137) % 360);
  }
  return hues.get(op);
}
const colourOf = (box) => (box.block ? '#e9edf2' : box.node.op ? `hsl(${hueOf(box.node.op)} 62% 90%)` : '#ffffff');
const edgeColourOf = (box) => (box.block ? '#7b8a99' : box.node.op ? `hsl(${hueOf(box.node.op)} 38% 52%)` : '#9aa8b5');

function countVisible(side) {
  const seen = new Set();
  side.nodes.forEach((node, n) => seen.add(foldedAround(side.innermost[n]) || node));
  return seen.size;
}

function makeBoxes(side) {
  side.boxes = [];
  const boxOfBlock = new Map();
  side.boxOf = side.nodes.map((node, n) => {
    const block = foldedAround(side.innermost[n]);
    if (block && boxOfBlock.has(block)) {
      const box = boxOfBlock.get(block);
      side.boxes[box].members.push(n);
      return box;
    }
    if (block) boxOfBlock.set(block, side.boxes.length);
    side.boxes.push({ node, block, members: [n], width: 0, height: BOX_HEIGHT });
    return side.boxes.length - 1;
  });
  side.context.font = '12px system-ui, "DejaVu Sans", sans-serif';
  for (const box of side.boxes) {
    box.middle = box.members[box.members.length >> 1];
    box.title = box.block ? box.block.name.replace(/[_/.:]+$/, '') : box.node.op || box.node.name;
    box.below = box.block ? box.members.length + (box.members.length > 1 ? ' operators' : ' operator') : box.node.op ? (box.node.out[0] || { shape: '' }).shape : (box.node.out[0] || { shape: '' }).shape;
    const wanted = Math.max(side.context.measureText(box.title).width, side.context.measureText(box.below).width * 0.86) + 22;
    box.width = Math.min(230, Math.max(86, wanted));
  }
  const edges = new Map();
  side.nodes.forEach((node, n) => node.ins.forEach((input) => {
    const a = side.boxOf[input], b = side.boxOf[n];
    if (a !== b) edges.set(a * 65536 + b, [a, b]);
  }));
  const placed = layOut(side.boxes, [...edges.values()]);
  placed.boxes.forEach((place, i) => Object.assign(side.boxes[i], place));
  side.lines = placed.edges;
  side.width = placed.width;
  side.height = placed.height;
}

// ---- drawing
function resize(canvas) {
  const ratio = window.devicePixelRatio || 1, box = canvas.getBoundingClientRect();
  const width = Math.max(1, Math.round(box.width * ratio)), height = Math.max(1, Math.round(box.height * ratio));
  if (canvas.width !== width || canvas.height !== height) { canvas.width = width; canvas.height = height; }
  return { ratio, width: box.width, height: box.height };
}

function fitted(context, text, width) {
  if (context.measureText(text).width <= width) return text;
  let low = 0, high = text.length;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (context.measureText(text.slice(0, middle) + '…').width <= width) low = middle; else high = middle - 1;
  }
  return text.slice(0, low) + '…';
}

function drawLine(context, points) {
  context.moveTo(points[0][0], points[0][1]);
  for (let i = 1; i < points.length; ++i) {
    const [x0, y0] = points[i - 1], [x1, y1] = points[i];
    if (Math.abs(x0 - x1) < 0.5) context.lineTo(x1, y1);
    else context.bezierCurveTo(x0, (y0 + y1) / 2, x1, (y0 + y1) / 2, x1, y1);
  }
}

function marksOf(side) {
  const marks = new Map();
  for (const n of found[side.index]) marks.set(side.boxOf[n], FOUND);
  if (selected)
    for (const [index, nodes, colour] of [[1 - selected.side, linkedTo(selected), LINKED], [selected.side, selected.nodes, SELECTED]])
      if (index === side.index) for (const n of nodes) marks.set(side.boxOf[n], colour);
  return marks;
}

function drawSide(side) {
  const { ratio, width, height } = resize(side.canvas);
  const context = side.context, scale = side.scale;
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  context.setTransform(ratio * scale, 0, 0, ratio * scale, ratio * side.x, ratio * side.y);
  const left = -side.x / scale, top = -side.y / scale, right = left + width / scale, bottom = top + height / scale;
  const marks = marksOf(side);
  context.lineWidth = Math.max(1, 0.7 / scale);
  context.strokeStyle = '#aab7c4';
  context.beginPath();
  const lit = [];
  for (const line of side.lines) {
    const first = line.points[0], last = line.points[line.points.length - 1];
    if (Math.max(first[1], last[1]) < top || Math.min(first[1], last[1]) > bottom) continue;
    if (marks.get(line.from) === SELECTED || marks.get(line.to) === SELECTED) lit.push(line); else drawLine(context, line.points);
  }
  context.stroke();
  context.strokeStyle = SELECTED;
  context.beginPath();
  for (const line of lit) drawLine(context, line.points);
  context.stroke();
  context.textAlign = 'center';
  context.textBaseline = 'middle';
  side.boxes.forEach((box, i) => {
    if (box.y + box.height < top || box.y - box.height > bottom || box.x + box.width < left || box.x - box.width > right) return;
    drawBox(context, box, marks.get(i), scale, side.outputs.has(box.members[0]));
  });
}

function drawBox(context, box, mark, scale, isOutput) {
  const x = box.x - box.width / 2, y = box.y - box.height / 2;
  context.beginPath();
  if (scale < 0.15) context.rect(x, y, box.width, box.height); else context.roundRect(x, y, box.width, box.height, box.block ? 3 : box.node.op ? 7 : 19);
  context.fillStyle = colourOf(box);
  context.fill();
  context.strokeStyle = mark || edgeColourOf(box);
  context.lineWidth = mark ? Math.max(3, 2.5 / scale) : isOutput ? 2.2 : 1;
  context.stroke();
  if (box.block && scale >= 0.15) {  // a stack of papers: there is more inside
    context.beginPath();
    context.moveTo(x + 5, y + box.height + 3);
    context.lineTo(x + box.width + 3, y + box.height + 3);
    context.lineTo(x + box.width + 3, y + 5);
    context.lineWidth = 1;
    context.stroke();
  }
  if (scale < LEAST_READABLE) return;
  context.fillStyle = '#1c2733';
  context.font = '12px system-ui, "DejaVu Sans", sans-serif';
  context.fillText(fitted(context, box.title, box.width - 14), box.x, box.y - 7);
  context.fillStyle = '#5c6d7d';
  context.font = '10.5px system-ui, "DejaVu Sans", sans-serif';
  context.fillText(fitted(context, box.below, box.width - 14), box.x, box.y + 9);
}

let isDrawing = false;
function redraw() {
  if (isDrawing) return;
  isDrawing = true;
  requestAnimationFrame(() => { isDrawing = false; sides.forEach(drawSide); drawTimeline(); });
}

// ---- moving about
function fitWhole(side) {
  const box = side.canvas.getBoundingClientRect();
  side.scale = Math.min(1.1, (box.width - 40) / Math.max(1, side.width), (box.height - 70) / Math.max(1, side.height));
  side.x = (box.width - side.width * side.scale) / 2;
  side.y = Math.max(46, (box.height - side.height * side.scale) / 2);
}
// A long graph is shown from its beginning, large enough to be read.
function fit(side) {
  fitWhole(side);
  if (side.scale >= 0.5) return;
  const box = side.canvas.getBoundingClientRect();
  side.scale = Math.min(0.75, Math.max(0.5, (box.width - 40) / Math.max(1, side.width)));
  const seen = side.boxes.filter((b) => b.y < box.height / side.scale);
  side.x = box.width / 2 - (seen.reduce((sum, b) => sum + b.x, 0) / Math.max(1, seen.length)) * side.scale;
  side.y = 46;
}
function zoom(side, factor, x, y) {
  const scale = Math.min(4, Math.max(0.01, side.scale * factor));
  side.x = x - (x - side.x) * scale / side.scale;
  side.y = y - (y - side.y) * scale / side.scale;
  side.scale = scale;
  redraw();
}
function centre(side, nodes) {
  const boxes = [...nodes].map((n) => side.boxes[side.boxOf[n]]);
  if (!boxes.length) return;
  const view = side.canvas.getBoundingClientRect();
  const middle = (values) => (Math.min(...values) + Math.max(...values)) / 2;
  side.scale = Math.max(side.scale, LEAST_READABLE + 0.15);
  side.x = view.width / 2 - middle(boxes.map((b) => b.x)) * side.scale;
  side.y = view.height / 2 - middle(boxes.map((b) => b.y)) * side.scale;
}
function boxAt(side, x, y) {
  const gx = (x - side.x) / side.scale, gy = (y - side.y) / side.scale;
  return side.boxes.findIndex((box) => Math.abs(box.x - gx) <= box.width / 2 && Math.abs(box.y - gy) <= box.height / 2);
}

// ---- choosing
function linkedTo(choice) {
  const nodes = new Set();
  for (const n of choice.nodes) for (const other of linked[choice.side][n]) nodes.add(other);
  return nodes;
}
function select(side, nodes, move) {
  selected = nodes && nodes.length ? { side: side.index, nodes: new Set(nodes), block: null } : null;
  if (selected) {
    const others = linkedTo(selected);
    if (move) centre(side, selected.nodes);
    centre(sides[1 - side.index], others);
  }
  showDetails();
  redraw();
}

function fold(block, folded) {
  block.folded = folded;
  if (!folded) for (let at = block.parent; at; at = at.parent) at.folded = false;
  refresh();
}
function refresh(keepView = true) {
  const anchors = sides.map((side) => (selected && keepView ? { side } : null));
  sides.forEach(makeBoxes);
  sides.forEach((side, i) => {
    if (!anchors[i]) fit(side);
    else centre(side, i === selected.side ? selected.nodes : linkedTo(selected));
  });
  showBlocks();
  redraw();
}

// ---- searching
function search(text) {
  const wanted = text.trim().toLowerCase();
  found = sides.map((side) => {
    const nodes = new Set();
    if (wanted) side.nodes.forEach((node, n) => { if (node.name.toLowerCase().includes(wanted) || node.op.toLowerCase().includes(wanted)) nodes.add(n); });
    return nodes;
  });
  matches = found.flatMap((nodes, side) => [...nodes].map((n) => ({ side, n })));
  match = -1;
  element('matches').textContent = wanted ? (matches.length ? matches.length + ' found' : 'none found') : '';
  redraw();
}
function nextMatch() {
  if (!matches.length) return;
  match = (match + 1) % matches.length;
  const { side, n } = matches[match];
  const block = foldedAround(sides[side].innermost[n]);
  if (block) {
    for (let at = sides[side].innermost[n]; at; at = at.parent) at.folded = false;
    sides.forEach(makeBoxes);
    showBlocks();
  }
  element('matches').textContent = `${match + 1} of ${matches.length}`;
  select(sides[side], [n], true);
}

// ---- what is known of a node, as text
const row = (what, value) => (value === '' || value === null || value === undefined ? '' : `<tr><td>${escapeText(what)}</td><td>${escapeText(String(value))}</td></tr>`);
function escapeText(text) { return text.replace(/[&<>"]/g, (c) => ({ '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' }[c])); }
const threeDigits = (number) => String(Number(number.toPrecision(3)));
function bytesText(bytes) {
  let unit = 0;
  for (; bytes >= 1000 && unit < 4; ++unit) bytes /= 1000;
  return (unit ? threeDigits(bytes) : bytes) + ' ' + ['bytes', 'kB', 'MB', 'GB', 'TB'][unit];
}
function timeText(microseconds) {
  const [scale, unit] = microseconds >= 1e6 ? [1e6, ' s'] : microseconds >= 1e3 ? [1e3, ' ms'] : [1, ' µs'];
  return threeDigits(microseconds / scale) + unit;
}
function countText(count) {
  let unit = 0;
  for (; count >= 1000 && unit < 5; ++unit) count /= 1000;
  return (unit ? threeDigits(count) : count) + ['', ' k', ' M', ' G', ' T', ' P'][unit];
}

function nodeDetails(node) {
  let html = `<h3>${escapeText(node.name)}</h3><div class="operator">${escapeText(node.op || 'an input')}</div><table>`;
  node.out.forEach((out, i) => { html += row(node.out.length > 1 ? 'output ' + i : 'output', `${out.shape} ${out.dtype}, ${bytesText(out.bytes)}`); });
  html += row('time', node.us === undefined ? '' : timeText(node.us)) + row('operations', node.flops ? countText(node.flops) : '');
  html += row('memory', node.place) + row('made at', node.source) + '</table>';
  const attributes = Object.entries(node.attrs || {});
  if (attributes.length) html += '<h4>attributes</h4><table>' + attributes.map(([key, value]) => row(key, value)).join('') + '</table>';
  if ((node.params || []).length) html += '<h4>parameters</h4><table>' + node.params.map((p) => row(p.name, p.shape)).join('') + '</table>';
  return html;
}
function sumDetails(side, nodes) {
  const all = [...nodes].map((n) => side.nodes[n]), kinds = new Map();
  for (const node of all) if (node.op) kinds.set(node.op, (kinds.get(node.op) || 0) + 1);
  const time = all.reduce((sum, node) => sum + (node.us || 0), 0), flops = all.reduce((sum, node) => sum + (node.flops || 0), 0);
  const block = foldedAround(side.innermost[[...nodes][0]]);
  return `<h3>${escapeText(block ? block.prefix.replace(/[_/.:]+$/, '') : nodes.size + ' nodes')}</h3><div class="operator">${nodes.size} operators; a double click opens the block</div><table>` +
    row('time', time ? timeText(time) : '') + row('operations', flops ? countText(flops) : '') + '</table><h4>operators</h4><table>' +
    [...kinds].sort((a, b) => b[1] - a[1]).map(([op, count]) => row(op, count)).join('') + '</table>';
}
function showDetails() {
  const panel = element('details');
  if (!selected) {
    panel.innerHTML = '<p class="hint">Click a box to see its shapes, attributes, time and memory, and what it is on the other side.</p>' +
      '<p class="hint">Double click a box to fold its block, or a folded block to open it. Drag to move, turn the wheel to zoom.</p>';
    return;
  }
  const side = sides[selected.side], other = sides[1 - selected.side], others = [...linkedTo(selected)];
  let html = selected.nodes.size === 1 ? nodeDetails(side.nodes[[...selected.nodes][0]]) : sumDetails(side, selected.nodes);
  html += `<h4>${selected.side === 0 ? 'became' : 'was'}${others.length > 1 ? ', ' + others.length + ' operators' : ''}</h4>`;
  html += others.length ? others.slice(0, 60).map((n) => `<div class="link" data-side="${other.index}" data-node="${n}">${escapeText(other.nodes[n].name)} <span class="hint">${escapeText(other.nodes[n].op || 'input')}</span></div>`).join('')
    : `<div class="hint">${selected.side === 0 ? 'nothing: it is not needed any more, or it follows from constants' : 'nothing: the compiler added it'}</div>`;
  panel.innerHTML = html;
  for (const link of panel.querySelectorAll('.link')) link.onclick = () => select(sides[+link.dataset.side], [+link.dataset.node], true);
}

function showBlocks() {
  const rows = [];
  eachBlock(root, (block, depth) => {
    let hidden = false;
    for (let at = block.parent; at; at = at.parent) hidden = hidden || at.folded;
    if (!hidden) rows.push({ block, depth });
  });
  const panel = element('blocks');
  panel.replaceChildren(...rows.map(({ block, depth }) => {
    const line = document.createElement('div');
    line.style.paddingLeft = 4 + 11 * depth + 'px';
    line.title = block.prefix;
    line.innerHTML = `<span class="sign">${block.folded ? '+' : '−'}</span>${escapeText(block.name.replace(/[_/.:]+$/, ''))} <span class="count">${block.count}</span>`;
    line.onclick = () => fold(block, !block.folded);
    return line;
  }));
}

// ---- the arena: which value lies where from which step to which
function timelineScale() {
  const { ratio, width, height } = resize(element('timeline'));
  return { ratio, width, height, x: width / Math.max(1, data.plan.steps), y: height / Math.max(1, data.plan.arena) };
}
function drawTimeline() {
  const { ratio, width, height, x, y } = timelineScale(), context = element('timeline').getContext('2d');
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.fillStyle = '#f4f6f8';
  context.fillRect(0, 0, width, height);
  const chosen = selected ? (selected.side === 1 ? selected.nodes : linkedTo(selected)) : new Set();
  for (const slot of data.plan.slots) {
    const box = [slot.first * x, height - (slot.offset + slot.bytes) * y, Math.max(1, (slot.last - slot.first + 1) * x), Math.max(1, slot.bytes * y)];
    context.fillStyle = chosen.has(slot.node) ? SELECTED : `hsl(${hueOf(sides[1].nodes[slot.node].op)} 55% 72%)`;
    context.fillRect(...box);
    context.strokeStyle = '#ffffff';
    context.lineWidth = 0.6;
    if (box[2] > 3 && box[3] > 3) context.strokeRect(...box);
  }
}
function slotAt(event) {
  const box = element('timeline').getBoundingClientRect(), { height, x, y } = timelineScale();
  const step = Math.floor((event.clientX - box.left) / x), offset = (height - (event.clientY - box.top)) / y;
  return data.plan.slots.find((s) => s.first <= step && step <= s.last && s.offset <= offset && offset < s.offset + s.bytes);
}

// ---- events
function showTip(event, text) {
  const tip = element('tip');
  tip.hidden = !text;
  if (!text) return;
  tip.textContent = text;
  tip.style.left = Math.min(event.clientX + 14, window.innerWidth - tip.offsetWidth - 8) + 'px';
  tip.style.top = Math.min(event.clientY + 14, window.innerHeight - tip.offsetHeight - 8) + 'px';
}
function listen(side) {
  const canvas = side.canvas;
  let drag = null;
  canvas.addEventListener('wheel', (event) => { event.preventDefault(); zoom(side, Math.exp(-event.deltaY * 0.0016), event.offsetX, event.offsetY); }, { passive: false });
  canvas.addEventListener('pointerdown', (event) => {
    drag = { x: event.clientX, y: event.clientY, moved: false };
    if (event.isTrusted) canvas.setPointerCapture(event.pointerId);
    canvas.classList.add('dragging');
  });
  canvas.addEventListener('pointermove', (event) => {
    if (!drag) {
      const box = boxAt(side, event.offsetX, event.offsetY);
      showTip(event, box >= 0 ? (side.boxes[box].block ? side.boxes[box].block.prefix : side.boxes[box].node.name) : '');
      return;
    }
    const dx = event.clientX - drag.x, dy = event.clientY - drag.y;
    if (!drag.moved && Math.abs(dx) + Math.abs(dy) < 4) return;
    Object.assign(drag, { x: event.clientX, y: event.clientY, moved: true });
    side.x += dx;
    side.y += dy;
    showTip(event, '');
    redraw();
  });
  canvas.addEventListener('pointerup', (event) => {
    canvas.classList.remove('dragging');
    const moved = drag && drag.moved;
    drag = null;
    if (moved) return;
    const box = boxAt(side, event.offsetX, event.offsetY);
    select(side, box < 0 ? null : side.boxes[box].members, false);
  });
  canvas.addEventListener('pointerleave', (event) => showTip(event, ''));
  canvas.addEventListener('dblclick', (event) => {
    const box = side.boxes[boxAt(side, event.offsetX, event.offsetY)];
    if (!box) return;
    const block = box.block || side.innermost[box.members[0]];
    if (block !== root) fold(block, !box.block);
  });
}

function start() {
  element('title').textContent = data.title;
  element('totals').innerHTML = data.totals.map((t) => `<span>${escapeText(t.what)} <b>${escapeText(t.before)}</b> → <b>${escapeText(t.after)}</b></span>`).join('');
  element('timeline-label').textContent = data.plan.steps ? `memory of intermediate values: ${bytesText(data.plan.arena)} over ${data.plan.steps} steps (${bytesText(data.plan.unplanned)} without sharing)` : 'no step needs memory of its own';
  foldTo(root, () => Math.max(...sides.map(countVisible)), MOST_AT_FIRST);
  sides.forEach(listen);
  const timeline = element('timeline');
  timeline.addEventListener('pointermove', (event) => {
    const slot = slotAt(event);
    showTip(event, slot ? `${sides[1].nodes[slot.node].name}: ${bytesText(slot.bytes)} at ${slot.offset}, steps ${slot.first} to ${slot.last}` : '');
  });
  timeline.addEventListener('pointerleave', (event) => showTip(event, ''));
  timeline.addEventListener('click', (event) => { const slot = slotAt(event); if (slot) select(sides[1], [slot.node], true); });
  element('search').addEventListener('input', (event) => search(event.target.value));
  element('search').addEventListener('keydown', (event) => {
    if (event.key === 'Enter') nextMatch();
    if (event.key === 'Escape') { event.target.value = ''; search(''); event.target.blur(); }
  });
  const foldEvery = (folded) => { eachBlock(root, (block) => { block.folded = folded; }); refresh(); };
  element('open-all').onclick = () => foldEvery(false);
  element('fold-all').onclick = () => foldEvery(true);
  element('fit').onclick = () => { sides.forEach(fitWhole); redraw(); };
  window.addEventListener('keydown', (event) => {
    if (event.target.tagName === 'INPUT') return;
    if (event.key === '/') { event.preventDefault(); element('search').focus(); }
    if (event.key === 'f') { sides.forEach(fitWhole); redraw(); }
    if (event.key === 'Escape') select(sides[0], null, false);
  });
  window.addEventListener('resize', redraw);
  showDetails();
  refresh(false);
}
start();
