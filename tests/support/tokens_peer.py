"""Says which special tokens templates get: one line of JSON for each folder of DIRECTORY, in the order of their names.

    python3 tokens_peer.py DIRECTORY

Each folder has a `tokenizer.json` and what stands beside it. It needs transformers.
"""

import json
import sys
from pathlib import Path

from transformers import PreTrainedTokenizerFast

for folder in sorted(Path(sys.argv[1]).iterdir()):
    print(json.dumps(PreTrainedTokenizerFast.from_pretrained(folder).special_tokens_map))
