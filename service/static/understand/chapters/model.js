// The last chapters of the story: all layers, the decoder, and the words that it writes.

import { element, tokenParts } from '../../common/dom.js';
import { speaker } from '../../common/strings.js';
import { percent, spoken, tokenName } from '../../common/text.js';
import { story } from '../../strings/story.js';
import { bar, lookTable, more, paragraphs, tokenTable } from '../figures.js';
import { mostOf } from './layer.js';

const say = speaker(story);

/** Shows where the token looks in each layer of the encoder. */
export function encoder({ encoder: data, tokens, token, layer, model }) {
  const name = spoken(tokens[token]);
  const looks = data.map((heads, index) => ({
    name: String(index + 1),
    ...mostOf(meanOf(heads.map((rows) => rows[token])), tokens),
  }));
  const values = { model: model.id, layers: data.length, token: name };
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

const meanOf = (rows) =>
  rows[0].map((_, i) => rows.reduce((sum, row) => sum + row[i], 0) / rows.length);

/** Shows the cross-attention before the translation of the token was written. */
export function decoder({ item, cross, tokens, token, written, model }) {
  const { place, isAligned, layer, head } = written;
  const row = cross[layer][head][place];
  const name = spoken(tokens[token]);
  const columns = [{ name: say('softmax_column'), cells: row.map(bar), class: 'share' }];
  return [
    ...paragraphs(
      isAligned ? '' : say('decoder_unaligned', { token: name }),
      say('decoder_text', crossValues({ item, cross, tokens, written })),
    ),
    writtenTokens(item.target.tokens, place),
    element('p', {
      class: 'hint',
      text: say('decoder_place', { layer: layer + 1, head: head + 1 }),
    }),
    tokenTable(say('decoder_title'), tokens, columns, {
      ...{ most: row.indexOf(Math.max(...row)), shares: row },
    }),
    more(say('decoder_more', { token: name }), memoryOf(model)),
  ];
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
    more(say('words_more', crossValues(facts)), memoryOf(facts.model)),
  ];
}

function candidates(title, { likeliest }, place, taken) {
  const names = likeliest.tokens[place];
  const looks = names.map((name, index) => ({
    ...{ name: tokenName(name), token: null },
    share: Math.exp(likeliest.log_probs[place][index]),
  }));
  const columns = [say('words_candidate'), say('words_probability')];
  return lookTable(title, columns, looks, names.indexOf(taken));
}

/** Shows how the model takes the wrong sense of a word, and what that says about it. */
export function pool({ pool: facts }) {
  const written = spoken(facts.written);
  const { translation, most } = facts;
  return [
    ...paragraphs(say('pool_text', { translation, share: percent(most) })),
    candidates(say('pool_title', { written }), facts.probabilities, 0, facts.written),
    more(say('pool_other', { share: percent(facts.game) }), say('pool_context', facts.context)),
  ];
}
