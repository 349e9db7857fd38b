// The texts of the reference of the API. The descriptions of the server are in English.

/** @type {import('../common/strings.js').Texts} */
export const reference = {
  en: {
    other: 'other',
    version: 'Version {version}.',
    parameters: 'Parameters',
    body: 'Body of the request: {type}',
    reply: 'Reply {status}: {description}',
    name: 'Field',
    type: 'Type',
    meaning: 'Meaning',
    required: 'Required.',
    usual: 'Default: {value}.',
    listOf: 'list of {type}',
    any: 'any',
  },
  pt: {
    other: 'outros',
    version: 'Versão {version}.',
    parameters: 'Parâmetros',
    body: 'Corpo do pedido: {type}',
    reply: 'Resposta {status}: {description}',
    name: 'Campo',
    type: 'Tipo',
    meaning: 'Significado',
    required: 'Obrigatório.',
    usual: 'Padrão: {value}.',
    listOf: 'lista de {type}',
    any: 'qualquer um',
  },
};
