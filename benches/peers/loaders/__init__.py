"""One file for each loader, written as its users would write it for speed.

Each has one or both of

    online(work, engine, state=None)    # from text
    shards(work, state=None)            # from ids that were tokenized before

which return an iterable of batches `[rows, seq_len + 1]`. If what is returned has a method `state()`, that is what a
checkpoint holds, and it is given back at a resume. Without one, or where `state()` is None, batches are read again
and passed over.
"""
