"""Checkpoints on disk: one file a family, one loop that applies their name tables.

folder_names   what the model in a folder is called (no torch)
json_files     JSON, and what is wrong with it
weight_files   which files of a Hugging Face folder are its weights (no torch)
tensors        safetensors and PyTorch's pickles, whole or in shards -> named arrays
names          rename and account for every tensor
marian_format  Marian's .bin container -> named arrays
marian         what Marian's options and parameter names mean
marian_npz     its .npz container -> the same
hf_config      a Hugging Face config.json -> ModelConfig (no torch)
hf_weights     what its parameter names mean
languages      their codes -> BCP 47 tags (no torch)
opus_folder    an OPUS-MT folder, Marian's or Hugging Face's -> files and tokenizers (no torch)
multilingual_folder  the same for M2M100 and NLLB-200 (no torch)
load           a folder or an installed package -> ModelFiles and tokenizers (no torch)
build          ModelFiles -> a filled model and its engine
text_encoders  what the options of BERT, RoBERTa, XLM-RoBERTa and MPNet mean (no torch)
text_weights   what their tensor names mean
sentence_modules  what the files of sentence-transformers' modules mean (no torch)
sentence_transformers  a folder or package -> EmbeddingFiles, config, tokenizer (no torch)
embedding      EmbeddingFiles -> a filled EmbeddingModel
"""
