// A layered layout for graphs that are long and narrow, as networks are: a few thousand boxes in a few hundredths of a second.
// Boxes stand in rows by their distance from the inputs; an edge over several rows is a chain of bends, shared by all readers of one
// value; rows are ordered by the medians of their neighbours; places in a row are the least squares of the distances to the neighbours
// that keep the order and the gaps (isotonic regression).
'use strict';

const GAP_X = 26, GAP_Y = 34, BEND_WIDTH = 8;

// boxes: [{width, height, middle}], the last being where it stands among all nodes; edges: [[from, to]]. Folded blocks may read what they
// give: an edge that closes a circle is drawn, but does not decide about rows. Gives {boxes: [{x, y}] (centres), edges: [{from, to, points}], width, height}.
function layOut(boxes, edges) {
  const order = sortBoxes(boxes, edges);
  const isForward = ([a, b]) => order[a] < order[b];
  const forward = edges.filter(isForward);
  const rank = rankBoxes(boxes.length, forward, order);
  const rows = [];
  const items = boxes.map((box, i) => ({ width: box.width, row: rank[i], box: i, above: [], below: [], x: 0 }));
  const chains = addBends(items, forward, rank);
  for (const item of items) (rows[item.row] = rows[item.row] || []).push(item);
  for (let r = 0; r < rows.length; ++r) rows[r] = rows[r] || [];
  orderRows(rows);
  placeInRows(rows);
  standUpright(rows);
  return finish(boxes, items, edges, isForward, chains, rows);
}

// A place for each box, inputs before readers; a circle begins with the box whose middle comes first.
function sortBoxes(boxes, edges) {
  const count = boxes.length, byMiddle = boxes.map((box, i) => i).sort((a, b) => boxes[a].middle - boxes[b].middle);
  const waits = new Array(count).fill(0), readers = Array.from({ length: count }, () => []), order = new Array(count).fill(-1);
  for (const [a, b] of edges) { readers[a].push(b); ++waits[b]; }
  const ready = [];
  for (let i = count - 1; i >= 0; --i) if (waits[i] === 0) ready.push(i);
  for (let next = 0, first = 0; next < count;) {
    while (!ready.length) {
      while (order[byMiddle[first]] >= 0) ++first;
      ready.push(byMiddle[first]);
    }
    const box = ready.pop();
    if (order[box] >= 0) continue;
    order[box] = next++;
    for (const reader of readers[box]) if (--waits[reader] === 0 && order[reader] < 0) ready.push(reader);
  }
  return order;
}

// The longest way from an input; inputs themselves stand right above their first reader.
function rankBoxes(count, edges, order) {
  const rank = new Array(count).fill(0), inputs = new Array(count).fill(0), readers = Array.from({ length: count }, () => []);
  for (const [a, b] of edges) { readers[a].push(b); ++inputs[b]; }
  const sorted = order.map((place, box) => box).sort((a, b) => order[a] - order[b]);
  for (const i of sorted) for (const b of readers[i]) rank[b] = Math.max(rank[b], rank[i] + 1);
  for (let i = 0; i < count; ++i)
    if (inputs[i] === 0 && readers[i].length) rank[i] = Math.max(0, Math.min(...readers[i].map((b) => rank[b])) - 1);
  return rank;
}

// chains[a] are the bends of box a's value, one per row below it as far as it is read.
function addBends(items, edges, rank) {
  const chains = new Map();
  const join = (up, down) => { up.below.push(down); down.above.push(up); };
  for (const [a, b] of edges) {
    if (!chains.has(a)) chains.set(a, []);
    const chain = chains.get(a);
    for (let row = rank[a] + 1 + chain.length; row < rank[b]; ++row) {
      const bend = { width: BEND_WIDTH, row, box: -1, above: [], below: [], x: 0 };
      join(chain.length ? chain[chain.length - 1] : items[a], bend);
      chain.push(bend);
      items.push(bend);
    }
    const last = rank[b] - rank[a] - 2;
    join(last >= 0 ? chain[last] : items[a], items[b]);
  }
  return chains;
}

function median(values) {
  values.sort((a, b) => a - b);
  const middle = values.length >> 1;
  return values.length % 2 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

function orderRows(rows) {
  const number = (row) => row.forEach((item, i) => { item.place = i; });
  rows.forEach(number);
  for (let sweep = 0; sweep < 6; ++sweep) {
    const down = sweep % 2 === 0;
    for (let k = 1; k < rows.length; ++k) {
      const row = rows[down ? k : rows.length - 1 - k];
      for (const item of row) {
        const near = down ? item.above : item.below;
        item.wish = near.length ? median(near.map((n) => n.place)) : item.place;
      }
      row.sort((a, b) => a.wish - b.wish || a.place - b.place);
      number(row);
    }
  }
}

// The places nearest to the wishes, in the least squares, that keep the order and the gaps: pool adjacent violators.
function settle(row) {
  let offset = 0;
  const pools = [];
  row.forEach((item, i) => {
    if (i) offset += (row[i - 1].width + item.width) / 2 + GAP_X;
    item.offset = offset;
    const weight = item.box < 0 ? 0.02 : 1;  // lines make way for boxes
    let pool = { sum: (item.wish - offset) * weight, weight, first: i };
    while (pools.length && pools[pools.length - 1].sum / pools[pools.length - 1].weight > pool.sum / pool.weight) {
      const before = pools.pop();
      pool = { sum: before.sum + pool.sum, weight: before.weight + pool.weight, first: before.first };
    }
    pools.push(pool);
  });
  pools.forEach((pool, p) => {
    const end = p + 1 < pools.length ? pools[p + 1].first : row.length;
    for (let i = pool.first; i < end; ++i) row[i].x = pool.sum / pool.weight + row[i].offset;
  });
}

function placeInRows(rows) {
  for (const row of rows) {
    for (const item of row) item.wish = 0;
    settle(row);
  }
  for (let sweep = 0; sweep < 12; ++sweep) {
    const down = sweep % 2 === 0;
    for (let k = 0; k < rows.length; ++k) {
      const row = rows[down ? k : rows.length - 1 - k];
      for (const item of row) {
        const all = sweep >= 10 ? item.above.concat(item.below) : down ? item.above : item.below;
        // A box in a chain follows the chain, and a bend its line: else every line that passes by would draw the row to its side.
        const alike = all.filter((n) => (n.box < 0) === (item.box < 0)), near = alike.length === 1 || (item.box < 0 && alike.length) ? alike : all;
        item.wish = near.length ? near.reduce((sum, n) => sum + n.x, 0) / near.length : item.x;
      }
      settle(row);
    }
  }
}

// What is the same in every layer of a long network moves it to the side a little each time; rows are moved back by the trend.
function standUpright(rows) {
  const WINDOW = 12;
  const sums = [0];
  let middle = 0;
  rows.forEach((row, r) => {
    const boxes = row.filter((item) => item.box >= 0);
    if (boxes.length) middle = boxes.reduce((sum, item) => sum + item.x, 0) / boxes.length;
    sums[r + 1] = sums[r] + middle;
  });
  rows.forEach((row, r) => {
    const reach = Math.min(WINDOW, r, rows.length - 1 - r);  // the same on both sides
    const trend = (sums[r + reach + 1] - sums[r - reach]) / (2 * reach + 1);
    for (const item of row) item.x -= trend;
  });
}

function finish(boxes, items, edges, isForward, chains, rows) {
  const tops = [];
  let y = 0;
  for (const row of rows) {
    const height = Math.max(0, ...row.map((item) => (item.box < 0 ? 0 : boxes[item.box].height)));
    tops.push(y + height / 2);
    y += height + GAP_Y;
  }
  let left = Infinity, right = -Infinity;
  for (const item of items) {
    left = Math.min(left, item.x - item.width / 2);
    right = Math.max(right, item.x + item.width / 2);
  }
  const placed = boxes.map((box, i) => ({ x: items[i].x - left, y: tops[items[i].row] }));
  const lines = edges.map(([a, b]) => {
    const points = [[placed[a].x, placed[a].y + boxes[a].height / 2]];
    if (isForward([a, b])) for (const bend of (chains.get(a) || []).slice(0, items[b].row - items[a].row - 1)) points.push([bend.x - left, tops[bend.row]]);
    points.push([placed[b].x, placed[b].y - boxes[b].height / 2]);
    return { from: a, to: b, points };
  });
  return { boxes: placed, edges: lines, width: boxes.length ? right - left : 0, height: Math.max(0, y - GAP_Y) };
}

if (typeof module !== 'undefined') module.exports = { layOut };
