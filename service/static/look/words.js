// The words that describe a view, and a number of its map.

import { speaker } from '../common/strings.js';
import { decimal, percent, spoken } from '../common/text.js';
import { look } from '../strings/look.js';

const say = speaker(look);

/** Reports whether a view shows one head, and no mean of several. */
export const isOneHead = ({ layer, head }) => typeof layer === 'number' && head !== 'mean';

/** Reports whether the numbers of a row add up to 1. */
export const isShare = ({ layer, norm }) => norm === 'weights' || layer === 'rollout';

/** Describes a view in a few words: "Cross-attention, layer 2, head 1". */
export function describe(view) {
  const named = say('described', { name: say(`name_${view.kind}`), place: placeOf(view) });
  return isShare(view) ? named : say('describeNorms', { view: named });
}

/** Names the heads and layers of a view, counted from 1. */
function placeOf({ layer, head, sizes: { layers, heads } }) {
  if (layer === 'rollout') return say('placeRollout', { layers });
  if (layer === 'all') return say('placeAll', { layers, heads });
  const values = { layer: layer + 1, head: head + 1, heads };
  return say(head === 'mean' ? 'placeMean' : 'placeHead', values);
}

/** Names the head that aligns words, as GET /v1/models describes it. */
export function alignerWords({ layer, head }) {
  const name = say('name_cross');
  const place = head === 'mean' ? 'placeMeanHeads' : 'placeHead';
  const named = say('described', { name, place: say(place, { layer: layer + 1, head: head + 1 }) });
  return say('aligner', { place: named });
}

/** Returns the titles of a heat map's rows and columns. */
export function sidesOf({ kind }) {
  const sides = {
    cross: ['translation', 'text'],
    encoder: ['text', 'text'],
    decoder: ['written', 'written'],
  };
  return sides[kind].map((side) => say(`side_${side}`));
}

/** Describes a cell: both words, the number, and the heads that it comes from. */
export function readout(view, tables, values, row, column) {
  const value = values[row][column];
  const words = {
    from: spoken(tables.rows.labels[row]),
    to: spoken(tables.columns.labels[column]),
    input: spoken(tables.inputs.labels[row] ?? ''),
    weight: decimal(value, 4),
  };
  const isAfter = view.kind === 'cross' && row > 0;
  const said = say(isAfter ? 'looksAtAfter' : 'looksAt', words);
  const share = isShare(view) ? say('share', { share: percent(value) }) : '';
  return say('cell', { said, share, place: placeOf(view) });
}
