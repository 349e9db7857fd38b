// The last chapters of the story: the decoder, its mask, and the words that it writes.

import { element, tokenParts } from '../../common/dom.js';
import { drawFigure } from '../../common/figure.js';
import { palette } from '../../common/palette.js';
import { speaker } from '../../common/strings.js';
import { percent, spoken, tokenName } from '../../common/text.js';
import { story } from '../../strings/story.js';
import { computation, lookTable, more, paragraphs } from '../figures.js';
import { mostOf } from './encoder.js';

const say = speaker(story);

const MASK_WIDTH = 340; // Pixels
const SEEN = 0.15; // Colour of a word that may be seen, in a model that has no shares for it.

/** Shows the cross-attention before the translation of the token was written, beside self-attention. */
export function decoder({ item, encoder, cross, tokens, token, written, model, layer, head }) {
  const { place, isAligned } = written;
  const [self, row] = [encoder[layer][head][token], cross[written.layer][written.head][place]];
  const name = spoken(tokens[token]);
  const target = spoken(item.target.tokens[place]);
  return [
    ...paragraphs(
      isAligned ? '' : say('decoder_unaligned', { token: name }),
      say('decoder_text', crossValues({ item, cross, tokens, written })),
      memoryOf(model),
    ),
    writtenTokens(item.target.tokens, place),
    element(
      'div',
      { class: 'beside' },
      side('self', { token: name, layer: layer + 1, head: head + 1 }, tokens, self),
      side('cross', { token: target, layer: written.layer + 1, head: written.head + 1 }, tokens, row),
    ),
    more(say('decoder_more', { token: name })),
  ];
}

/** Shows the shares of one row, below what attends in it, and to what. */
function side(kind, values, tokens, row) {
  const looks = tokens.map((name, index) => ({ name, share: row[index] }));
  const title = say(`decoder_${kind}`, values);
  return element(
    'div',
    { 'data-kind': kind },
    element('h4', { text: title }),
    element('p', { class: 'hint', text: say(`decoder_${kind}Place`, values) }),
    lookTable(title, [say('token'), say('softmax_column')], looks, row.indexOf(Math.max(...row))),
  );
}

/** Says by what the decoder takes up the words that it has written. */
const memoryOf = ({ attention }) =>
  say(attention.decoder ? 'decoder_masked' : 'decoder_recurrent');

/** Returns the token that gets most from the decoder's head before a token is written, and its share. */
function crossValues({ item, cross, tokens, written: { place, layer, head } }) {
  const { token: most, share } = mostOf(cross[layer][head][place], tokens);
  const written = spoken(item.target.tokens[place]);
  return { written, most: spoken(most), share: percent(share) };
}

function writtenTokens(tokens, place) {
  const parts = tokens.map((token, index) => {
    const kind = index === place ? 'chip here' : `chip${index > place ? ' later' : ''}`;
    return element('span', { class: kind }, ...tokenParts(tokenName(token)));
  });
  return element('p', { class: 'chips' }, ...parts);
}

/** Shows what a mask hides: from a token of the text, and from each word that is written. */
export function mask({ steps, item: { target }, own }) {
  const names = target.input_tokens.map((name) => spoken(tokenName(name)));
  const values = own ?? names.map(() => names.map(() => SEEN));
  const title = say(own ? 'mask_own' : 'mask_map');
  const sides = { rows: names, columns: names, rowTitle: say('mask_row'), columnTitle: say('mask_side') };
  const drawing = drawFigure({ ...sides, values, max: 1, isCausal: true }, palette(), MASK_WIDTH);
  drawing.setAttribute('role', 'img');
  drawing.setAttribute('aria-label', title);
  return [
    ...paragraphs(say('mask_text'), say('mask_here', { token: spoken(steps.query.token) })),
    element('figure', { class: 'frame' }, drawing, element('figcaption', { class: 'hint', text: title })),
    computation(say('mask_title'), steps, ['root', 'mask']),
  ];
}

/** Shows the probabilities of the candidates at the place of the token's translation. */
export function words(facts) {
  const { item, tokens, token } = facts;
  const { place, isAligned } = facts.written;
  const { target, probabilities } = item;
  const written = spoken(target.tokens[place]);
  const share = percent(Math.exp(probabilities.log_probs[place]));
  const before = place > 0 ? spoken(target.tokens[place - 1]) : '';
  return [
    ...paragraphs(
      isAligned ? '' : say('decoder_unaligned', { token: spoken(tokens[token]) }),
      before ? say('words_text', { before, written, share }) : say('words_first', { written, share }),
    ),
    candidates(say('words_title'), probabilities, place, target.tokens[place]),
  ];
}

function candidates(title, { likeliest }, place, taken) {
  const names = likeliest.tokens[place];
  const looks = names.map((name, index) => ({ name, share: Math.exp(likeliest.log_probs[place][index]) }));
  const columns = [say('words_candidate'), say('words_probability')];
  return lookTable(title, columns, looks, names.indexOf(taken));
}

/** Shows how the model takes the wrong sense of a word, and what that says about it. */
export function pool({ pool: facts }) {
  const written = spoken(facts.written);
  const { translation, most } = facts;
  return [
    ...paragraphs(say('pool_text', { translation, share: percent(most) })),
    candidates(say('pool_title', { written }), facts.drawn.item.probabilities, 0, facts.written),
    more(say('pool_other', { share: percent(facts.game) }), say('pool_context', facts.context)),
  ];
}
