// Offsets of the API count code points; strings here count UTF-16 units.

/** For every code point of a text, and for its end, the index in UTF-16 units. */
export function unitOffsets(text) {
  const offsets = [0];
  for (const character of text) offsets.push(offsets.at(-1) + character.length);
  return offsets;
}

/** A share as a reader would say it: 62 %, below 1 %. */
export function percent(share) {
  const value = share * 100;
  if (value > 0 && value < 1) return 'below 1 %';
  return `${Math.round(value)} %`;
}

/** A number with so many decimals and a real minus sign. */
export function decimal(value, digits = 3) {
  return value.toFixed(digits).replace('-', '\u2212');
}

/** A token as it is shown: those that stand for no text get a name. */
export function tokenName(token) {
  if (token === '') return '⟨start⟩';
  return token === '</s>' ? '⟨end⟩' : token;
}

/** The mark that begins a word in a vocabulary, where there is one, and the rest. */
export function splitMark(name) {
  return /^[▁Ġ]/.test(name) ? [name[0], name.slice(1)] : ['', name];
}

/** A token within a sentence: without that mark. */
export function spoken(token) {
  const [mark, rest] = splitMark(tokenName(token));
  return rest || mark;
}

/** A list as it is read aloud: "a, b and c". */
export function listed(words) {
  if (words.length < 2) return words.join('');
  return `${words.slice(0, -1).join(', ')} and ${words.at(-1)}`;
}
