// Creates the parts of the page and connects them.

import { WordLights } from './translate/alignment.js';
import { Candidates } from './translate/candidates.js';
import { get } from './common/api.js';
import { Controls } from './look/controls.js';
import { keepAddress, linkTo } from './common/address.js';
import { makeCopy } from './common/copy.js';
import { CurlLine } from './common/curl.js';
import { byId, element } from './common/dom.js';
import { SimilarityPanel } from './embed/similarity.js';
import { Fold, isUnfolded } from './common/fold.js';
import { Downloads } from './look/downloads.js';
import { Heads } from './look/heads.js';
import { History } from './translate/history.js';
import { HeatMap } from './common/heatmap.js';
import { LanguageChoice, sayStatic } from './common/language.js';
import { Languages } from './translate/languages.js';
import { LikelyPanel } from './look/likely.js';
import { LookPanel } from './look/look.js';
import { Models } from './look/models.js';
import { TextLimit } from './translate/limit.js';
import { Notice } from './common/notice.js';
import { OtherTranslations } from './translate/others.js';
import { DEFAULTS, FIRST, Store, UNPINNED, fromFragment, toFragment } from './common/state.js';
import { SearchPanel } from './look/search.js';
import { StepsPanel } from './look/steps.js';
import * as embedTexts from './strings/embed.js';
import * as likelyTexts from './strings/likely.js';
import * as lookTexts from './strings/look.js';
import * as pageTexts from './strings/page.js';
import * as searchTexts from './strings/search.js';
import * as stepsTexts from './strings/steps.js';
import * as translateTexts from './strings/translate.js';
import { LaterPart, shownFragment } from './greeting.js';
import { Sample } from './translate/sample.js';
import { TranslationPanel } from './translate/translation.js';
import { WayChoice } from './common/ways.js';

const EXAMPLES = [
  'The kids were scared of the lions, so they left right away.',
  'pool beats badminton',
  'Hi, How are you?',
];
const EXAMPLE_LANGUAGE = 'en';

sayStatic({ ...embedTexts, ...likelyTexts, ...lookTexts, ...pageTexts, ...searchTexts, ...stepsTexts, ...translateTexts });
const languageChoice = new LanguageChoice();
languageChoice.view = () => toFragment(typedInto(fromFragment(shownFragment()) ?? DEFAULTS));
const translateNotice = new Notice(byId('translate-notice'));
const understand = new LaterPart('understand', async (view) => {
  const { UnderstandPanel } = await import('./understand/understand.js');
  return new UnderstandPanel(view);
});
const documents = new LaterPart('documents', async () => {
  const { DocumentsPanel } = await import('./documents/documents.js');
  return new DocumentsPanel();
});

async function start() {
  const { way } = document.documentElement.dataset;
  const later = [understand, documents].find((part) => part.way === way);
  const notice = later?.notice ?? translateNotice;
  try {
    const models = new Models();
    const asked = [get('languages'), get('frontend/settings'), models.embedders()];
    const [list, settings, embedders] = await Promise.all(asked);
    notice.hide();
    const usualTarget = settings.language.target.code;
    const limit = new TextLimit(byId('text'), settings.charLimit);
    build({ languages: new Languages(list), usualTarget, models, embedders, limit, settings });
  } catch (error) {
    notice.show(/** @type {ApiError} */ (error), start);
  }
}

function build(served) {
  const { languages, models, embedders, limit } = served;
  const shown = shownFragment();
  const store = new Store(typedInto(restored(served, shown)));
  languageChoice.view = () => toFragment(store.view);
  const lights = new WordLights(byId('text'), byId('mirror'), byId('output'), byId('pairs'));
  const look = buildLook(store, models, lights);
  const fold = new Fold(store, (result) => look.follow(result));
  const similarity = new SimilarityPanel(linesOf('similarity', store));
  const others = new OtherTranslations(store, new Notice(byId('others-notice')));
  const translation = new TranslationPanel({
    ...{ store, languages, lights, limit, candidates: new Candidates() },
    ...{ notice: translateNotice, curl: new CurlLine(byId('translate-curl')) },
    translated: (result) => {
      fold.follow(result);
      similarity.follow(result);
      others.follow(result?.task === 'embed' ? null : result);
      history.follow(result?.task === 'embed' ? null : result);
    },
  });
  const history = new History((entry) => translation.take(entry));
  new Sample(store, languages).render(store.view);
  offerExamples(translation, languages);
  const tellUnserved = (link) => {
    const pair = unservedPair(served, link);
    if (pair !== null) translation.tellUnserved(pair);
  };
  makeCopy(byId('link'), () => linkTo(store.view));
  keepAddress(store, () => restored(served, location.hash), tellUnserved);
  new WayChoice(store, embedders).render(store.view);
  for (const part of [understand, documents]) part.connect({ store, ...served });
  for (const type of ['dragover', 'dragleave', 'drop'])
    document.addEventListener(type, (event) => drag(event, store));
  fold.render();
  translation.restore();
  tellUnserved(shown);
}

/** Takes a file that is dropped anywhere to the documents. */
function drag(event, store) {
  if (!event.dataTransfer?.types.includes('Files')) return; // A text goes into the field.
  event.preventDefault();
  const isOver = event.type === 'dragover' || event.relatedTarget !== null;
  document.documentElement.toggleAttribute('data-dragged', isOver);
  if (event.type === 'drop') store.set({ way: 'documents', file: event.dataTransfer.files[0] });
}

function buildLook(store, models, lights) {
  const unpin = () => {
    store.set(UNPINNED);
    byId('map').focus();
  };
  /** @type {LookPanel} */
  const look = new LookPanel({
    ...{ store, models, lights, controls: new Controls(store) },
    map: new HeatMap({
      root: byId('map'),
      table: byId('map-table'),
      point: (row, column) => look.point(row, column),
      open: (row, column) => look.pin(row, column),
      light: (row, column) => look.light(row, column),
      leave: () => lights.rest(),
    }),
    heads: new Heads(byId('heads'), (head) => look.chooseHead(head)),
    likely: new LikelyPanel(linesOf('likely', store)),
    search: new SearchPanel(linesOf('search', store)),
    steps: new StepsPanel({ ...linesOf('steps', store), closed: unpin }),
    downloads: new Downloads(new Notice(byId('download-notice'))),
    ...linesOf('look', store),
  });
  lights.gaze = (word) => look.gazeOf(word);
  lights.aligner = () => look.alignerWords();
  lights.pointed = (word) => look.outline(word);
  lights.pinned = (word, isNew) => look.pinWord(word, isNew);
  return look;
}

/** Returns the view, and the lines of a panel that show its errors and its requests. */
const linesOf = (panel, store) => {
  const curl = new CurlLine(/** @type {HTMLDetailsElement} */ (byId(`${panel}-curl`)));
  return { store, notice: new Notice(byId(`${panel}-notice`)), curl };
};

/** Returns the view of a link's fragment, or the default view. */
function restored({ languages, usualTarget, embedders }, fragment) {
  const view = { ...(fromFragment(fragment) ?? DEFAULTS) };
  if (embedders.length === 0) view.task = 'translate';
  if (!embedders.includes(view.model)) view.model = null;
  const source = languages.isServed(view.source) ? view.source : 'auto';
  const isOffered = languages.targets(source).includes(view.target);
  const target = languages.targetFor(source, isOffered ? view.target : usualTarget);
  return { ...view, source, target, look: isUnfolded(view) };
}

/** Returns a view with the text that the reader typed before the page was built, if any. */
function typedInto(view) {
  const { value: text } = byId('text');
  return text === '' ? view : { ...view, text, ...FIRST };
}

/** Returns the languages of a link if the server does not translate them, or null. */
function unservedPair({ languages }, fragment) {
  const view = fromFragment(fragment);
  return view === null || languages.hasPair(view.source, view.target) ? null : view;
}

function offerExamples(translation, languages) {
  const source = languages.isServed(EXAMPLE_LANGUAGE) ? EXAMPLE_LANGUAGE : 'auto';
  const buttons = EXAMPLES.map((text) => {
    const onclick = () => translation.take({ text, source });
    return element('button', { type: 'button', text, lang: 'en', onclick });
  });
  byId('examples').append(...buttons);
}

start();
