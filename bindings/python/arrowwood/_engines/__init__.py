"""Datasets in other libraries: Polars, DuckDB, Dask, pandas, DataFusion, Parquet.

Each module is named after its library, and imported when it is first used. `polars_scan` uses `polars`; otherwise they
use no other module of this folder.
"""
