// The texts of the pinned number and its parts.

/** @type {import('../common/strings.js').Texts} */
export const number = {
  en: {
    title: '“{from}” → “{to}”: {number}',
    unpin: 'Unpin',
    parts: 'Parts of the number',
    number: 'number',
    head: 'Head {head}',
    headName: 'head',
    layer: 'Layer {layer}',
    layerName: 'layer',
    token: 'token',
    tokenName: 'Token “{token}”',
    sum: 'sum',
    divided: 'sum ÷ {count}',
    meanOfHeads:
      'This number is the mean of the {count} heads of layer {layer}. Choose a head to see how its number is computed.',
    meanOfLayers:
      'This number is the mean of {layers} layers with {heads} heads each. Each layer stands here with the mean of its heads; choose one to see them.',
    rollout:
      '[[rollout|Rollout]] follows the attention through {layers} layers. In each layer, half of a word’s attention stays at the word itself, and half is spread as the mean of the heads says.',
    rolloutLayers:
      'The tables of all layers, made like this, are multiplied. The last column shows the result after each layer; choose a layer to see its heads.',
    meanHere: 'mean of the heads',
    rolloutHere: 'rollout up to here',
    tooManyHeads: 'The text is too long to list all heads at once. Choose a head.',
    oneHead: 'This number comes from layer {layer}, head {head}.',
    weight: 'It is one share of the row: all shares of a row add up to 1. The steps below compute it.',
    valueNorm:
      'It is a weight times the length of the value vector behind it. The steps below compute the weight.',
    sumOfTokens:
      'The model reads “{word}” as {count} tokens, so their weights are added.',
    meanOfTokens:
      'The model reads “{word}” as {count} tokens. Each of them looks for itself, and the number is their mean.',
  },
  pt: {
    title: '“{from}” → “{to}”: {number}',
    unpin: 'Soltar',
    parts: 'Partes do número',
    number: 'número',
    head: 'Cabeça {head}',
    headName: 'cabeça',
    layer: 'Camada {layer}',
    layerName: 'camada',
    token: 'token',
    tokenName: 'Token “{token}”',
    sum: 'soma',
    divided: 'soma ÷ {count}',
    meanOfHeads:
      'Este número é a média das {count} cabeças da camada {layer}. Escolha uma cabeça para ver como o número dela é calculado.',
    meanOfLayers:
      'Este número é a média de {layers} camadas com {heads} cabeças cada. Cada camada aparece aqui com a média das suas cabeças; escolha uma para vê-las.',
    rollout:
      'O [[rollout]] segue a atenção por {layers} camadas. Em cada camada, metade da atenção de uma palavra fica nela mesma, e metade se espalha como diz a média das cabeças.',
    rolloutLayers:
      'As tabelas de todas as camadas, feitas assim, são multiplicadas. A última coluna mostra o resultado depois de cada camada; escolha uma camada para ver suas cabeças.',
    meanHere: 'média das cabeças',
    rolloutHere: 'rollout até aqui',
    tooManyHeads: 'O texto é longo demais para listar todas as cabeças. Escolha uma cabeça.',
    oneHead: 'Este número vem da camada {layer}, cabeça {head}.',
    weight:
      'Ele é uma parte da linha: todas as partes de uma linha somam 1. Os passos abaixo o calculam.',
    valueNorm:
      'Ele é um peso vezes o comprimento do vetor de valor por trás dele. Os passos abaixo calculam o peso.',
    sumOfTokens: 'O modelo lê “{word}” como {count} tokens, por isso os pesos deles são somados.',
    meanOfTokens:
      'O modelo lê “{word}” como {count} tokens. Cada um olha por si, e o número é a média deles.',
  },
};
