// The first chapters of the story: a text becomes vectors.

import { element, tokenParts } from '../../common/dom.js';
import { speaker } from '../../common/strings.js';
import { spoken, tokenName } from '../../common/text.js';
import { story } from '../../strings/story.js';
import { paragraphs, vectorRows } from '../figures.js';

const say = speaker(story);

/** Shows the tokens as radio buttons: the story follows the chosen one. */
export function tokens({ item, token }, follow) {
  const chips = item.source.tokens.map((name, index) => {
    const input = element('input', {
      ...{ type: 'radio', name: 'token', value: index, class: 'unseen' },
      onchange: () => follow(index),
    });
    input.checked = index === token;
    const id = element('small', { text: say('id', { id: item.source.ids[index] }) });
    return element('label', { class: 'chip' }, input, chipText(name, id));
  });
  const legend = element('legend', { class: 'unseen', text: say('follow') });
  return [
    ...paragraphs(
      say('tokens_text'),
      say('tokens_choose', { token: spoken(item.source.tokens[token]) }),
    ),
    element('fieldset', { class: 'chips' }, legend, ...chips),
  ];
}

const chipText = (name, id) =>
  element('span', {}, element('b', {}, ...tokenParts(tokenName(name))), id);

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
  ];
}
