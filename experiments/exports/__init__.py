"""Downloads of what a run or an experiment has left behind: tables of columns (columns, records, runs), written as
JSONL, CSV or Parquet (jsonl, csv_text, parquet) piece by piece (stream), so that none is ever held whole."""
