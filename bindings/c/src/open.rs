//! Opens files and streams in place, memory, Arrow data of other libraries, text; and writes.

use std::fs::File;
use std::sync::Arc;

use arrow_schema::Schema;
use arrowwood::{
    Compression, CsvOptions, Dataset, Error, Format, OpenOptions, Result, Validation, WriteOptions, export_schema,
    parse_schema, read_csv_from,
};

use crate::dataset::CDataset;
use crate::error::invalid_argument;
use crate::ffi::*;

/// `arrowwood_validate`.
mod validate {
    pub const LAZY: i32 = 0;
    pub const FULL: i32 = 1;
}

/// `arrowwood_format`.
mod format {
    pub const FILE: i32 = 0;
    pub const STREAM: i32 = 1;
}

/// `arrowwood_compression`.
mod compression {
    pub const NONE: i32 = 0;
    pub const LZ4: i32 = 1;
    pub const ZSTD: i32 = 2;
}

/// The delimiter of options that name none, which means a comma.
const NO_DELIMITER: i32 = 0;

structs! {
    /// `arrowwood_open_options`.
    struct COpenOptions {
        size: u64,
        validate: i32,
        copy: i32,
        strict: i32,
        partial: i32,
    }

    /// `arrowwood_write_options`.
    struct CWriteOptions {
        size: u64,
        format: i32,
        compression: i32,
        max_rows: u64,
    }

    /// `arrowwood_csv_options`.
    struct CCsvOptions {
        size: u64,
        schema: Optional<SchemaIn>,
        dictionary: InSlice<CText>,
        delimiter: i32,
        reserved: Reserved,
    }
}

// `tests/capi/c/layout.c` has the same numbers.
const _: () = {
    use std::mem::offset_of;
    assert!(size_of::<COpenOptions>() == 24 && offset_of!(COpenOptions, validate) == 8);
    assert!(offset_of!(COpenOptions, copy) == 12 && offset_of!(COpenOptions, partial) == 20);
    assert!(size_of::<CWriteOptions>() == 24 && offset_of!(CWriteOptions, max_rows) == 16);
    assert!(size_of::<CCsvOptions>() == 40 && offset_of!(CCsvOptions, schema) == 8);
    assert!(offset_of!(CCsvOptions, dictionary) == 16 && offset_of!(CCsvOptions, delimiter) == 32);
};

impl COpenOptions {
    fn open(&self) -> Result<OpenOptions> {
        let validate = match self.validate {
            validate::LAZY => Validation::Lazy,
            validate::FULL => Validation::Full,
            other => return Err(invalid_argument(format!("options.validate: there is no {other}"))),
        };
        let open = OpenOptions::new().validate(validate).copy(self.copy != 0);
        Ok(open.strict(self.strict != 0).partial(self.partial != 0))
    }
}

impl CWriteOptions {
    fn options(&self) -> Result<WriteOptions> {
        let format = match self.format {
            format::FILE => Format::File,
            format::STREAM => Format::Stream,
            other => return Err(invalid_argument(format!("options.format: there is no {other}"))),
        };
        let compression = match self.compression {
            compression::NONE => None,
            compression::LZ4 => Some(Compression::Lz4),
            compression::ZSTD => Some(Compression::Zstd),
            other => return Err(invalid_argument(format!("options.compression: there is no {other}"))),
        };
        Ok(WriteOptions { format, compression, max_rows: Some(self.max_rows).filter(|&rows| rows > 0) })
    }
}

impl CCsvOptions {
    fn options(&self) -> Result<CsvOptions> {
        self.reserved.check("options.reserved")?;
        let mut options = CsvOptions::default();
        if let Some(schema) = self.schema.to_rust("options.schema")? {
            options.schema = Some(Arc::new(import_schema(schema)?));
        }
        let names = self.dictionary.to_rust("options.dictionary")?;
        options.dictionary = texts(names, "options.dictionary")?.into_iter().map(String::from).collect();
        if self.delimiter != NO_DELIMITER {
            options.delimiter = u8::try_from(self.delimiter).map_err(|_| {
                invalid_argument(format!("options.delimiter: {} is no ASCII character", self.delimiter))
            })?;
        }
        Ok(options)
    }
}

/// Imports a schema from an ArrowSchema of struct type.
pub fn import_schema(schema: &arrow_array::ffi::FFI_ArrowSchema) -> Result<Schema> {
    Schema::try_from(schema).map_err(|e| invalid_argument(format!("importing an Arrow C schema: {e}")))
}

fn csv_file(path: &std::path::Path, options: &CsvOptions) -> Result<Dataset> {
    let file = File::open(path).map_err(|e| Error::io("opening the CSV file", &e))?;
    let (schema, batches) = read_csv_from(file, options)?;
    Dataset::from_batches(schema, batches)
}

export! {
    /// Opens a file, a table, a directory or a glob.
    fn arrowwood_open(path: CPath, options: OptionsPtr<COpenOptions>, dataset: HandleOut<CDataset>) {
        dataset.put(CDataset::new(options.open()?.path(path)?));
        Ok(())
    }

    /// Opens several as one dataset.
    fn arrowwood_open_paths(
        paths[path_count]: InArray<CPath>, options: OptionsPtr<COpenOptions>, dataset: HandleOut<CDataset>,
    ) {
        let paths = paths.iter().map(|path| path.to_rust("paths")).collect::<Result<Vec<_>>>()?;
        dataset.put(CDataset::new(options.open()?.paths(&paths)?));
        Ok(())
    }

    /// Opens an IPC file or stream in memory.
    fn arrowwood_open_memory(
        bytes[length]: BytesIn, release: Release, context: Context, options: OptionsPtr<COpenOptions>,
        dataset: HandleOut<CDataset>,
    ) {
        let (bytes, lender) = bytes.into_bytes(release, context);
        let used = if options.copy != 0 { bytes.to_memory()? } else { bytes };
        let opened = options.open()?.bytes(used)?;
        lender.arm();
        dataset.put(CDataset::new(opened));
        Ok(())
    }

    /// Reads a stream of Arrow data to its end.
    fn arrowwood_import_stream(stream: StreamIn, dataset: HandleOut<CDataset>) {
        dataset.put(CDataset::new(stream.import()?));
        Ok(())
    }

    /// Imports one array.
    fn arrowwood_import_array(array: ArrayIn, schema: SchemaIn, dataset: HandleOut<CDataset>) {
        dataset.put(CDataset::new(array.import(schema)?));
        Ok(())
    }

    /// Reads CSV text into memory.
    fn arrowwood_read_csv(path: CPath, options: OptionsPtr<CCsvOptions>, dataset: HandleOut<CDataset>) {
        let read = csv_file(path, &options.options()?).map_err(|e| e.at(path))?;
        dataset.put(CDataset::new(read));
        Ok(())
    }

    /// Writes an IPC file or stream.
    fn arrowwood_write(dataset: HandleRef<CDataset>, path: CPath, options: OptionsPtr<CWriteOptions>) {
        arrowwood::write(dataset, path, &options.options()?)
    }

    /// Parses a schema.
    fn arrowwood_schema_parse(text: CText, schema: OutPtr<arrow_array::ffi::FFI_ArrowSchema>) {
        schema.put(export_schema(&parse_schema(text)?)?);
        Ok(())
    }
}
