// The texts of the similarity of sentences and of their vectors.

/** @type {import('../common/strings.js').Texts} */
export const embed = {
  en: {
    heading: 'What the vectors say',
    intro:
      'The model turns each sentence into a vector: a list of {count} numbers. Sentences that mean something similar get vectors that point the same way.',
    one: 'Write two sentences or lines to compare them.',
    tooMany: 'The first {count} sentences are compared.',
    mapTitle: 'Similarity of the sentences',
    mapWords:
      'Each number is the [[cosine]] of two vectors. The diagonal is 1, because each sentence equals itself.',
    mapLabel: 'Similarity of {count} sentences: {count} rows, {count} columns',
    side: 'sentence',
    howTo: 'Point at a cell, or move with the arrow keys. A click or Enter opens the sentence of the row.',
    pair: '“{from}” and “{to}”: {number}',
    stripTitle: 'The vector of each sentence',
    stripWords:
      'Each stripe is one number: blue above 0, grey below. Single numbers have no meaning that people know; only whole vectors can be compared.',
    vectorOf: 'vector of {sentence}',
    truncated: '(cut: longer than the model reads)',
    shareTitle: 'What each token brings to the vector of “{sentence}”',
    shareWords:
      'This model uses [[pooling]]. A token’s share is the part of the vector’s length that comes from it: its own vector, projected onto the mean. The shares add up to 1.',
    shareHonest:
      'A token’s vector already contains its neighbours, because attention has mixed them. The share tells what comes from this place, not what the word alone means.',
    notMean:
      'This model does not simply take the mean of its tokens, so the vector cannot be divided among them here.',
    token: 'Token',
    share: 'Share',
    sum: 'sum',
    shares: 'Shares of the tokens',
    table: 'Table of similarities',
  },
  pt: {
    heading: 'O que dizem os vetores',
    intro:
      'O modelo transforma cada frase num vetor: uma lista de {count} números. Frases de sentido parecido recebem vetores que apontam para o mesmo lado.',
    one: 'Escreva duas frases ou linhas para compará-las.',
    tooMany: 'As primeiras {count} frases são comparadas.',
    mapTitle: 'Semelhança das frases',
    mapWords:
      'Cada número é a [[cosine]] de dois vetores. A diagonal é 1, porque cada frase é igual a si mesma.',
    mapLabel: 'Semelhança de {count} frases: {count} linhas, {count} colunas',
    side: 'frase',
    howTo: 'Aponte para uma célula ou mova-se com as setas. Um clique ou Enter abre a frase da linha.',
    pair: '“{from}” e “{to}”: {number}',
    stripTitle: 'O vetor de cada frase',
    stripWords:
      'Cada faixa é um número: azul acima de 0, cinza abaixo. Números sozinhos não têm um sentido que se conheça; só vetores inteiros podem ser comparados.',
    vectorOf: 'vetor de {sentence}',
    truncated: '(cortada: mais longa do que o modelo lê)',
    shareTitle: 'O que cada token traz para o vetor de “{sentence}”',
    shareWords:
      'Este modelo usa a [[pooling]]. A parte de um token é o pedaço do comprimento do vetor que vem dele: o vetor dele, projetado na média. As partes somam 1.',
    shareHonest:
      'O vetor de um token já contém os vizinhos, porque a atenção os misturou. A parte diz o que vem deste lugar, não o que a palavra sozinha significa.',
    notMean:
      'Este modelo não faz simplesmente a média dos tokens, por isso o vetor não pode ser dividido entre eles aqui.',
    token: 'Token',
    share: 'Parte',
    sum: 'soma',
    shares: 'Partes dos tokens',
    table: 'Tabela de semelhanças',
  },
};
