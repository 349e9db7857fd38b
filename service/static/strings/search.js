// The texts of the search for a head, and of the map of all heads.

/** @type {import('../common/strings.js').Texts} */
export const search = {
  en: {
    summary: 'Which head links two words? All heads at a glance',
    intro: 'Choose two words here, or in the text or the map. Every head of every layer then shows how much the first word looks at the second.',
    from: 'This word',
    to: 'looks at this word',
    none: 'choose a word',
    grid: 'All heads: one row for each layer, one column for each head',
    layer: 'layer',
    head: 'head',
    cellNumber: 'Layer {layer}, head {head}: {number}',
    choose: 'Choose two words to compare all heads.',
    numbers: 'Each cell is the number of “{from}” → “{to}” in one head. The largest is {number}, in layer {layer}, head {head}. Choose a cell to show its head.',
  },
  pt: {
    summary: 'Qual cabeça liga duas palavras? Todas as cabeças de uma vez',
    intro: 'Escolha duas palavras aqui, ou no texto ou no mapa. Cada cabeça de cada camada mostra então quanto a primeira palavra olha para a segunda.',
    from: 'Esta palavra',
    to: 'olha para esta palavra',
    none: 'escolha uma palavra',
    grid: 'Todas as cabeças: uma linha por camada, uma coluna por cabeça',
    layer: 'camada',
    head: 'cabeça',
    cellNumber: 'Camada {layer}, cabeça {head}: {number}',
    choose: 'Escolha duas palavras para comparar todas as cabeças.',
    numbers: 'Cada célula é o número de “{from}” → “{to}” em uma cabeça. O maior é {number}, na camada {layer}, cabeça {head}. Escolha uma célula para mostrar a sua cabeça.',
  },
};
