// Copies text to the clipboard, also if the page is not served over https.

import { common } from '../strings/common.js';
import { element, setText } from './dom.js';
import { speaker } from './strings.js';

const say = speaker(common);

const SAID_MILLISECONDS = 1500;

/** Makes a button copy the result of `text()`; the button then shows whether that worked. */
export function makeCopy(button, text) {
  const label = button.textContent;
  let timer = null;
  button.addEventListener('click', async () => {
    const isDone = await copied(text());
    setText(button, say(isDone ? 'copied' : 'notCopied'));
    clearTimeout(timer);
    timer = setTimeout(() => setText(button, label), SAID_MILLISECONDS);
  });
}

async function copied(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return copiedBySelection(text); // The page has no secure context or no permission.
  }
}

function copiedBySelection(text) {
  const before = /** @type {HTMLElement|null} */ (document.activeElement);
  const field = element('textarea', { class: 'unseen', 'aria-hidden': 'true', readonly: true });
  field.value = text;
  document.body.append(field);
  field.select();
  const isDone = document.execCommand('copy');
  field.remove();
  before?.focus();
  return isDone;
}
