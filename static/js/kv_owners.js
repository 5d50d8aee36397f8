// The bars of "KV blocks by owner": what each request alone holds, stacked, then what several share, then what is kept
// for a later prefix hit. A request keeps one lane, and so its place in the stack, from its first sample to its last.

const HUES = ["#3b72d9", "#d9772b", "#1d9a84", "#c0497f", "#8a66d6", "#9a861f", "#3f9fc4"];
const LANES = 32;

const color = (name) => HUES[[...name].reduce((sum, letter) => (sum * 31 + letter.charCodeAt(0)) >>> 0, 7) % HUES.length];

export function ownerTraces(samples) {
  const told = samples.filter((sample) => sample.kv_blocks);
  const times = told.map((sample) => sample.t_s);
  const lanes = [];
  const rest = [];
  told.forEach((sample, at) => {
    const left = new Map(Object.entries(sample.kv_blocks.owners));
    for (const lane of lanes) {
      if (left.has(lane.owner)) put(lane, at, lane.owner, left);
      else lane.owner = null;
    }
    for (const name of [...left.keys()]) {
      let lane = lanes.find((one) => one.owner === null);
      if (!lane && lanes.length < LANES) lanes.push((lane = { owner: null, blocks: [], names: [] }));
      if (lane) put(lane, at, name, left);
    }
    rest.push(sample.kv_blocks.others + [...left.values()].reduce((sum, blocks) => sum + blocks, 0));
  });
  const dense = (values, empty) => Array.from({ length: told.length }, (_, at) => values[at] ?? empty);
  const widths = told.map((sample) => sample.interval_s);
  const bar = (name, blocks, more) => ({
    type: "bar", x: times, y: blocks, width: widths, offset: widths.map((width) => -width), name, hovertemplate: `%{y} blocks: ${name}<extra></extra>`, ...more,
  });
  const traces = lanes.map((lane, number) => {
    const names = dense(lane.names, "");
    return bar("requests", dense(lane.blocks, 0), {
      marker: { color: names.map(color) }, customdata: names, showlegend: number === 0, legendgroup: "requests",
      hovertemplate: "%{y} blocks: request %{customdata}<extra></extra>",
    });
  });
  if (rest.some(Boolean)) traces.push(bar("further requests", rest, { marker: { color: "#a9adb6" } }));
  traces.push(bar("shared by several", told.map((sample) => sample.kv_blocks.shared), { marker: { color: "#6d7380" } }));
  traces.push(bar("prefix cache, evictable", told.map((sample) => sample.kv_blocks.cached), { marker: { color: "rgba(128,134,146,0.35)" } }));
  return traces;
}

export function totalBlocks(samples) {
  const last = samples.findLast((sample) => sample.kv_blocks)?.kv_blocks;
  if (!last) return null;
  return last.others + last.shared + last.cached + last.free + Object.values(last.owners).reduce((sum, blocks) => sum + blocks, 0);
}

function put(lane, at, name, left) {
  lane.owner = name;
  lane.blocks[at] = left.get(name);
  lane.names[at] = name;
  left.delete(name);
}
