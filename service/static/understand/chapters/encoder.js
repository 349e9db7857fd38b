// The chapters of the story about the encoder: what goes into a layer, and what follows its heads.

import { element, tokenParts } from '../../common/dom.js';
import { palette, signedColour } from '../../common/palette.js';
import { speaker } from '../../common/strings.js';
import { paint } from '../../common/strip.js';
import { spoken, tokenName } from '../../common/text.js';
import { story } from '../../strings/story.js';
import { lookTable, more, paragraphs, vectorRows } from '../figures.js';

const say = speaker(story);

const END = '</s>';
const PLACES = 48; // Rows of the map of positions.
const NEAR = 1e-3; // Largest difference from a sine wave that rounding explains.

/** Shows the tokens of the sentence with their numbers. */
export function tokens({ item: { source }, token }) {
  const chips = source.tokens.map((name, index) =>
    element(
      'span',
      { class: index === token ? 'chip here' : 'chip' },
      element('b', {}, ...tokenParts(tokenName(name))),
      ' ',
      element('small', { text: String(source.ids[index]) }),
    ),
  );
  return [
    ...paragraphs(say('tokens_text')),
    element('p', { class: 'chips' }, ...chips),
    more(say('tokens_more')),
  ];
}

/**
 * Returns the vector of a place, counted from 0: sine waves, and then the same waves as cosines,
 * each slower than the one before.
 */
export function waves(place, size) {
  const half = size / 2;
  const angles = Array.from({ length: half }, (_, i) => place / 10000 ** (i / (half - 1)));
  return [...angles.map(Math.sin), ...angles.map(Math.cos)];
}

/** Shows the sum of the token's vector and its position's vector, and the vectors of all places. */
export function position({ steps, token }) {
  const { token: own, position: place, sum } = steps.block.embedding;
  const name = say('position_token', { token: spoken(steps.query.token) });
  const size = own.length;
  if (!place) return [...paragraphs(say('position_none', { size })), vectorRows([[name, own]])];
  const isWave = waves(token, size).every((value, i) => Math.abs(value - place[i]) < NEAR);
  return [
    ...paragraphs(say(isWave ? 'position_text' : 'position_learned', { size })),
    vectorRows([
      [name, own],
      [say('position_place', { place: token + 1 }), place],
      [say('position_sum'), sum],
    ]),
    ...(isWave ? [waveMap(size)] : []),
    more(say('position_more'), say('figures')),
  ];
}

/** Draws the vectors of the first places, one below the other. */
function waveMap(size) {
  const colours = palette();
  const rows = Array.from({ length: PLACES }, (_, place) => waves(place, size));
  const title = say('position_map', { count: PLACES, size });
  const canvas = element('canvas', { class: 'waves', role: 'img', 'aria-label': title });
  paint(canvas, rows, (value) => signedColour(colours, value));
  return element('figure', {}, canvas, element('figcaption', { class: 'hint', text: title }));
}

/** Returns the token that gets most of a row, and its share. */
export function mostOf(row, tokens) {
  const share = Math.max(...row);
  return { token: tokens[row.indexOf(share)], share };
}

/** Returns the mean of some rows. */
export const meanOf = (rows) =>
  rows[0].map((_, i) => rows.reduce((sum, row) => sum + row[i], 0) / rows.length);

/** Shows where the token looks most in each head of the layer. */
export function heads({ encoder, tokens, token, layer, head }) {
  const looks = encoder[layer].map((rows, index) => ({
    name: String(index + 1),
    ...mostOf(rows[token], tokens),
  }));
  const name = spoken(tokens[token]);
  const columns = [say('heads_column'), say('heads_most', { token: name })];
  const restsAtEnd = looks.some((look) => look.token === END);
  return [
    ...paragraphs(
      say('heads_text', { layer: layer + 1, count: looks.length }),
      restsAtEnd ? say('heads_end') : '',
    ),
    lookTable(say('heads_title'), columns, looks, head),
  ];
}

/** Shows the vectors of all heads side by side, and their product with W_O. */
export function concat({ steps, encoder, layer }) {
  const { concatenated } = steps.output;
  const values = {
    ...{ count: encoder[layer].length, size: steps.head_dim },
    ...{ total: concatenated.length, token: spoken(steps.query.token) },
  };
  return [
    ...paragraphs(say('concat_text', values)),
    vectorRows([
      [say('concat_all'), concatenated],
      [say('concat_result'), steps.block.attention],
    ]),
    more(say('concat_more')),
  ];
}

/** Shows the sum of the attention and the vector that came in. */
export function norm({ steps }) {
  const { input, attention, attended } = steps.block;
  return [
    ...paragraphs(say('norm_text')),
    vectorRows([
      [say('norm_in', { token: spoken(steps.query.token) }), input],
      [say('norm_attention'), attention],
      [say('norm_out'), attended],
    ]),
    more(say('norm_more')),
  ];
}

/** Shows the feed-forward network of the layer. */
export function forward({ steps }) {
  const { attended, feed_forward: change, output } = steps.block;
  return [
    ...paragraphs(say('forward_text')),
    vectorRows([
      [say('forward_in'), attended],
      [say('forward_change'), change],
      [say('forward_out'), output],
    ]),
  ];
}

/** Shows where the token looks in each layer of the encoder. */
export function encoder({ encoder: data, tokens, token, layer, model }) {
  const looks = data.map((heads, index) => ({
    name: String(index + 1),
    ...mostOf(meanOf(heads.map((rows) => rows[token])), tokens),
  }));
  const values = { model: model.id, layers: data.length, token: spoken(tokens[token]) };
  return [
    ...paragraphs(say('encoder_text', values)),
    lookTable(
      say('encoder_title', values),
      [say('encoder_column'), say('encoder_most')],
      looks,
      layer,
    ),
  ];
}
