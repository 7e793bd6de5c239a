"""A cache of Hugging Face `datasets`, opened in place, and handed back without rewriting.

`datasets` keeps tables as Arrow streams, in files `data-00000-of-00003.arrow` that `save_to_disk` writes, or in its
cache. They are Arrow files like any others.

    $ python examples/huggingface.py
"""

import json
import tempfile
from pathlib import Path

import datasets

import arrowwood as aw


def saved(folder, rows):
    """A folder of `save_to_disk`, in three shards."""
    columns = {"text": [f"sentence {i}" for i in range(rows)], "label": [i % 2 for i in range(rows)]}
    datasets.Dataset.from_dict(columns).save_to_disk(folder, num_shards=3)
    return aw.open(folder)


def cached(folder, rows):
    """What `load_dataset` leaves in its cache: the files of one split."""
    text = folder / "rows.jsonl"
    text.write_text("".join(json.dumps({"n": i, "text": f"sentence {i}"}) + "\n" for i in range(rows)))
    made = datasets.load_dataset("json", data_files=str(text), cache_dir=str(folder / "cache"), split="train")
    return aw.open([file["filename"] for file in made.cache_files])


def handed_back(ds):
    """A dataset of theirs over the same memory: features come from the schema's metadata."""
    return datasets.Dataset(ds.to_arrow())


def main(rows=10_000):
    datasets.disable_progress_bars()
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        ds = saved(folder / "saved", rows)
        print(ds)
        again = handed_back(ds)
        print("handed back:", again[rows // 2], again.features)
        print("from the cache:", cached(folder, rows)[-1])
        print("chosen here, used there:", handed_back(ds.filter(aw.col("label") == 1)).num_rows, "rows")


if __name__ == "__main__":
    main()
