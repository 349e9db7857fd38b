// The chapters of the story about a text that becomes vectors.

import { element, tokenParts } from '../../common/dom.js';
import { speaker } from '../../common/strings.js';
import { spoken, tokenName } from '../../common/text.js';
import { story } from '../../strings/story.js';
import { more, paragraphs, vectorRows } from '../figures.js';

const say = speaker(story);

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

/** Shows the sum of the token's vector and its position's vector. */
export function position({ steps, token }) {
  const { token: own, position: place, sum } = steps.block.embedding;
  const name = say('position_token', { token: spoken(steps.query.token) });
  const size = own.length;
  /** @type {Array<[string, number[]]>} */
  const vectors = place
    ? [
        [name, own],
        [say('position_place', { place: token + 1 }), place],
        [say('position_sum'), sum],
      ]
    : [[name, own]];
  return [
    ...paragraphs(place ? say('position_text', { size }) : say('position_none', { size })),
    vectorRows(vectors),
    more(say('figures')),
  ];
}
