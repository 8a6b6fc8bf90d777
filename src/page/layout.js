// A layered layout for graphs that are long and narrow, as networks are: a few thousand boxes in a few hundredths of a second.
// Boxes stand in rows by their distance from the inputs; an edge over several rows is a chain of bends, shared by all readers of one
// value; rows are ordered by the medians of their neighbours; places in a row are the least squares of the distances to the neighbours
// that keep the order and the gaps (isotonic regression).
'use strict';

const GAP_X = 26, GAP_Y = 34, BEND_WIDTH = 8;

// boxes: [{width, height}] in an order in which most edges lead forwards; edges: [[from, to]].
// Gives {boxes: [{x, y}] (centres), edges: [{from, to, points}], width, height}.
function layOut(boxes, edges) {
  const forward = edges.filter(([a, b]) => a < b);
  const rank = rankBoxes(boxes.length, forward);
  const rows = [];
  const items = boxes.map((box, i) => ({ width: box.width, row: rank[i], box: i, above: [], below: [], x: 0 }));
  const chains = addBends(items, forward, rank);
  for (const item of items) (rows[item.row] = rows[item.row] || []).push(item);
  for (let r = 0; r < rows.length; ++r) rows[r] = rows[r] || [];
  orderRows(rows);
  placeInRows(rows);
  return finish(boxes, items, edges, chains, rows);
}

// The longest way from an input; inputs themselves stand right above their first reader.
function rankBoxes(count, edges) {
  const rank = new Array(count).fill(0), inputs = new Array(count).fill(0), readers = Array.from({ length: count }, () => []);
  for (const [a, b] of edges) { readers[a].push(b); ++inputs[b]; }
  for (let i = 0; i < count; ++i) for (const b of readers[i]) rank[b] = Math.max(rank[b], rank[i] + 1);
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
    const weight = item.box < 0 ? 2 : 1;  // long edges should be straight
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
        const near = sweep >= 10 ? item.above.concat(item.below) : down ? item.above : item.below;
        item.wish = near.length ? near.reduce((sum, n) => sum + n.x, 0) / near.length : item.x;
      }
      settle(row);
    }
  }
}

function finish(boxes, items, edges, chains, rows) {
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
    if (a < b) for (const bend of (chains.get(a) || []).slice(0, items[b].row - items[a].row - 1)) points.push([bend.x - left, tops[bend.row]]);
    points.push([placed[b].x, placed[b].y - boxes[b].height / 2]);
    return { from: a, to: b, points };
  });
  return { boxes: placed, edges: lines, width: boxes.length ? right - left : 0, height: Math.max(0, y - GAP_Y) };
}

if (typeof module !== 'undefined') module.exports = { layOut };
