"""Networks made of layers: encoder, decoder, text encoder, output layer with shortlists."""
