// The chapters of the story about one layer: its heads, and what follows them.

import { speaker } from '../../common/strings.js';
import { spoken } from '../../common/text.js';
import { story } from '../../strings/story.js';
import { lookTable, more, paragraphs, vectorRows } from '../figures.js';

const say = speaker(story);

const END = '</s>';

/** Returns the token that gets most of a row, and its share. */
export function mostOf(row, tokens) {
  const share = Math.max(...row);
  return { token: tokens[row.indexOf(share)], share };
}

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
