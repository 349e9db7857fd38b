// The texts of the search for a head, and of the grid of all heads.

/** @type {import('../common/strings.js').Texts} */
export const search = {
  en: {
    summary: 'Which head links two words? All heads at a glance',
    intro:
      'Choose two words here, or click them in the text or in the map. Every head of every layer then shows how much the first word looks at the second.',
    from: 'This word',
    to: 'looks at this word',
    none: 'choose a word',
    best: 'The {count} heads with the largest number, of {all}',
    ranked: 'Layer {layer}, head {head}: {number}',
    grid: 'All heads: one row for each layer, one column for each head',
    gridHint: 'Arrow keys move in the grid; Enter shows the head.',
    layer: 'Layer {layer}',
    head: 'Head {head}',
    cell: 'Layer {layer}, head {head}',
    cellNumber: 'Layer {layer}, head {head}: {number}',
    smallMaps: 'Each small picture is the map of one head. Choose two words to compare one number.',
    numbers: 'Each cell is the number of “{from}” → “{to}” in one head.',
  },
  pt: {
    summary: 'Qual cabeça liga duas palavras? Todas as cabeças de uma vez',
    intro:
      'Escolha duas palavras aqui, ou clique nelas no texto ou no mapa. Cada cabeça de cada camada mostra então quanto a primeira palavra olha para a segunda.',
    from: 'Esta palavra',
    to: 'olha para esta palavra',
    none: 'escolha uma palavra',
    best: 'As {count} cabeças com o maior número, de {all}',
    ranked: 'Camada {layer}, cabeça {head}: {number}',
    grid: 'Todas as cabeças: uma linha por camada, uma coluna por cabeça',
    gridHint: 'As setas andam na grade; Enter mostra a cabeça.',
    layer: 'Camada {layer}',
    head: 'Cabeça {head}',
    cell: 'Camada {layer}, cabeça {head}',
    cellNumber: 'Camada {layer}, cabeça {head}: {number}',
    smallMaps:
      'Cada desenho pequeno é o mapa de uma cabeça. Escolha duas palavras para comparar um número.',
    numbers: 'Cada célula é o número de “{from}” → “{to}” em uma cabeça.',
  },
};
