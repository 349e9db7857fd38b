"""The command `regard bulk`: translates or embeds files of any size with Ray Data.

rows        rows of the input, their results, and the isolation of rows that fail
inputs      formats of input files: text, JSONL, Parquet
chunks      rows of similar length, computed and committed together
outputs     formats of output files: JSONL, Parquet
job         the options of a job, the fingerprint of its inputs, and its shards
folder      the output folder: chunks, shards, manifest
journal     computed rows, CPU seconds and costs
engine      the models of an actor
shard_work  computes the shards of a job in one process
actor       an actor of Ray, with one engine
cluster     runs the actors with Ray Data
commands    the options of the command
"""
