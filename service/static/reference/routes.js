// The routes of an OpenAPI document as elements: a fold for each route, with its fields.

import { element } from '../common/dom.js';
import { speaker } from '../common/strings.js';
import { reference } from '../strings/reference.js';
import { Schemas } from './schemas.js';

const say = speaker(reference);
const METHODS = ['get', 'post', 'put', 'patch', 'delete'];

/** Returns a section for each tag of a document, in the order of the document. */
export function routesOf(document) {
  const schemas = new Schemas(document.components?.schemas ?? {});
  const sections = new Map();
  for (const [path, methods] of Object.entries(document.paths)) {
    for (const method of METHODS.filter((name) => name in methods)) {
      const operation = methods[method];
      const tag = operation.tags?.[0] ?? say('other');
      if (!sections.has(tag)) sections.set(tag, []);
      sections.get(tag).push(fold(method.toUpperCase(), path, operation, schemas));
    }
  }
  const introduction = element('p', { text: `${document.info.description} ${say('version', document.info)}` });
  return [introduction, ...[...sections].map(([tag, folds]) => section(tag, folds))];
}

function section(tag, folds) {
  const heading = element('div', { class: 'heading' }, element('h2', { text: tag }));
  return element('section', { 'aria-label': tag }, heading, ...folds);
}

function fold(method, path, operation, schemas) {
  const id = `${method}${path}`.replace(/\W+/g, '-');
  const summary = element('summary', {}, element('code', { text: `${method} ${path}` }));
  const root = element('details', { id }, summary);
  // A document has many fields, so those of a route are made when the reader opens it.
  root.addEventListener('toggle', () => root.open && fill(root, operation, schemas), { once: true });
  return root;
}

function fill(root, operation, schemas) {
  const words = (operation.description ?? operation.summary ?? '').split('\n\n');
  root.append(...words.filter(Boolean).map((text) => element('p', { text })));
  const parameters = (operation.parameters ?? []).map((parameter) => ({
    name: `${parameter.name} (${parameter.in})`,
    schema: parameter.schema ?? {},
    required: parameter.required ?? false,
    description: parameter.description,
  }));
  if (parameters.length > 0) root.append(table(say('parameters'), parameters, schemas));
  for (const [type, { schema = {} }] of Object.entries(operation.requestBody?.content ?? {})) {
    root.append(table(say('body', { type }), schemas.fields(schema), schemas));
  }
  for (const [status, reply] of Object.entries(operation.responses ?? {})) {
    const schema = reply.content?.['application/json']?.schema ?? {};
    const title = say('reply', { status, description: reply.description ?? '' });
    root.append(table(title, schemas.fields(schema), schemas));
  }
}

/** Returns a caption with a table of fields below it, if there are any. */
function table(title, fields, schemas) {
  const caption = element('caption', { text: title });
  if (fields.length === 0) return element('p', { class: 'hint', text: title });
  const names = [say('name'), say('type'), say('meaning')];
  const heads = names.map((text) => element('th', { scope: 'col', text }));
  const rows = fields.map(({ name, schema, required, description }) => {
    const facts = schema.default === undefined ? '' : say('usual', { value: JSON.stringify(schema.default) });
    const meaning = [required ? say('required') : '', description ?? schema.description ?? '', facts];
    return element(
      'tr',
      {},
      element('th', { scope: 'row' }, element('code', { text: name })),
      element('td', { text: schemas.typeOf(schema) }),
      element('td', { text: meaning.filter(Boolean).join(' ') }),
    );
  });
  const head = element('thead', {}, element('tr', {}, ...heads));
  const root = element('table', {}, caption, head, element('tbody', {}, ...rows));
  return element('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': title }, root);
}
