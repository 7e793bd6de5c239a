"""Opens the files of Hugging Face `datasets` in place, and converts them back without copying.

`datasets` stores tables as Arrow streams, in the files that `save_to_disk` writes, such as `data-00000-of-00003.arrow`,
and in its cache.

    $ pip install datasets
    $ python examples/huggingface.py
"""

import json
import tempfile
from pathlib import Path

import datasets

import arrowwood as aw


def open_saved_dataset(folder, rows):
    """Saves a dataset in three files with `save_to_disk`, and opens the folder."""
    columns = {"text": [f"sentence {i}" for i in range(rows)], "label": [i % 2 for i in range(rows)]}
    datasets.Dataset.from_dict(columns).save_to_disk(folder, num_shards=3)
    return aw.open(folder)


def open_cached_dataset(folder, rows):
    """Loads a dataset with `load_dataset`, and opens the files of a split in its cache."""
    text = folder / "rows.jsonl"
    text.write_text("".join(json.dumps({"n": i, "text": f"sentence {i}"}) + "\n" for i in range(rows)))
    dataset = datasets.load_dataset("json", data_files=str(text), cache_dir=str(folder / "cache"), split="train")
    return aw.open([file["filename"] for file in dataset.cache_files])


def to_hugging_face(ds):
    """Returns a dataset of `datasets` over the same memory. Its features come from the metadata of the schema."""
    return datasets.Dataset(ds.to_arrow())


def main(rows=10_000):
    datasets.disable_progress_bars()
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        ds = open_saved_dataset(folder / "saved", rows)
        print(ds)
        converted = to_hugging_face(ds)
        print("handed back:", converted[rows // 2], converted.features)
        print("from the cache:", open_cached_dataset(folder, rows)[-1])
        print("chosen here, used there:", to_hugging_face(ds.filter(aw.col("label") == 1)).num_rows, "rows")


if __name__ == "__main__":
    main()
