//! Translates the library's messages: their advice names functions of Python, and users of C need C's.

const GIVE_A_ZONE: &str = "give a timestamp with a zone: as.timestamp.zone";
const CONVERT_TO_ARROW: &str = "write it as Arrow with a library that reads it";

/// Phrases of the library, and the phrases that replace them. A phrase comes before those that it contains.
const TRANSLATIONS: &[(&str, &str)] = &[
    (
        "convert the value to the zone that the column is meant in, and take that off, as by \
         value.astimezone(…).replace(tzinfo=None) in Python",
        "give a timestamp without a zone, of the time in the zone that the column is meant in",
    ),
    ("give the value its own, as by value.replace(tzinfo=…) in Python", GIVE_A_ZONE),
    ("give a time that has one, as datetime(…, tzinfo=…) in Python", GIVE_A_ZONE),
    ("give the value its own, as by pandas.Timestamp(value, tz=…)", GIVE_A_ZONE),
    ("as by datetime.fromisoformat(…) in Python", "of kind ARROWWOOD_KIND_TIMESTAMP"),
    (" over the same dataset: ds.sql(…), aw.scan(ds)", " over the same data"),
    (": ask DuckDB or Polars: ds.sql(…)", ": ask DuckDB or Polars"),
    (", as DuckDB by ds.sql(…)", ", as DuckDB"),
    (", or read it with aw.read_parquet", ""),
    ("read it with pyarrow.feather.read_table and write it as Arrow", CONVERT_TO_ARROW),
    ("read it with pyarrow.orc and write it as Arrow", CONVERT_TO_ARROW),
    ("map it with numpy.load(path, mmap_mode='r')", CONVERT_TO_ARROW),
    ("`arrowwood import` or read_csv", "`arrowwood import` or arrowwood_read_csv"),
    ("; read_stream reads an Arrow stream as it comes out of one", "; write the stream to a file, and open that"),
    ("; read it as large_utf8 or use a smaller batch_rows", "; read it as large_utf8"),
    ("; use LargeList or a smaller batch_rows", "; use large_list"),
    ("expected batch_rows of 1 or more, got 0", "expected batches of one row or more"),
    ("with late=\"accept\"", "with options.late ARROWWOOD_LATE_ACCEPT"),
    (", or all of them by follow_partitions", ""),
];

/// Begins advice for Python that ends the message.
const BY_SQL: &str = ", and in Python by SQL: ds.sql(";

/// Translates a message of the library to one that users of C can follow.
pub fn translate_message(message: String) -> String {
    let mut translated = message;
    for (phrase, replacement) in TRANSLATIONS {
        if translated.contains(phrase) {
            translated = translated.replace(phrase, replacement);
        }
    }
    if let Some(start) = translated.find(BY_SQL) {
        translated.truncate(start);
    }
    translated
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::{Path, PathBuf};

    use super::*;

    /// Parts of calls and options of Python and Rust, which messages for C must not contain.
    const FOREIGN: [&str; 14] = [
        "in Python",
        "pandas",
        "numpy.",
        "pyarrow.",
        " aw.",
        "datetime(",
        "datetime.",
        "tzinfo",
        "ds.sql",
        "late=",
        "=True",
        "=False",
        "batch_rows",
        "follow_partitions",
    ];

    /// Returns the string literals in a source, without its tests and comments.
    fn string_literals(code: &str) -> Vec<String> {
        let code = code.split("#[cfg(test)]\nmod ").next().unwrap();
        let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
        // Quotes as characters would look like the start of a string.
        let code = lines.collect::<Vec<_>>().join("\n").replace("'\"'", "' '").replace("'\\\"'", "' '");
        let mut literals = Vec::new();
        let mut rest = code.as_str();
        while let Some((_, after_quote)) = rest.split_once('"') {
            let mut literal = String::new();
            let mut chars = after_quote.chars();
            while let Some(c) = chars.next() {
                match c {
                    '"' => break,
                    '\\' => match chars.next() {
                        // The literal continues in the next line, after its indentation.
                        Some('\n') => chars = chars.as_str().trim_start_matches(' ').chars(),
                        Some(escaped) => literal.push(escaped),
                        None => (),
                    },
                    c => literal.push(c),
                }
            }
            literals.push(literal);
            rest = chars.as_str();
        }
        literals
    }

    /// Collects the Rust files in a folder, except this one.
    fn collect_sources(folder: &Path, files: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                collect_sources(&path, files);
            } else if path.extension().is_some_and(|extension| extension == "rs") && !path.ends_with("translation.rs") {
                files.push(path);
            }
        }
    }

    /// Removes `{placeholders}` of a format string.
    fn without_placeholders(text: &str) -> String {
        let mut parts = text.split('{');
        let mut plain = parts.next().unwrap_or("").to_owned();
        for part in parts {
            plain.push_str(part.split_once('}').map_or(part, |(_, after)| after));
        }
        plain
    }

    #[test]
    fn messages_contain_no_calls_of_other_languages() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let mut files = Vec::new();
        for folder in ["crates/arrowwood/src", "bindings/c/src", "crates/mapping/src"] {
            collect_sources(&root.join(folder), &mut files);
        }
        let mut is_used = vec![false; TRANSLATIONS.len()];
        for file in files {
            let texts = string_literals(&fs::read_to_string(&file).unwrap());
            for text in texts.into_iter().filter(|text| text.contains(' ')) {
                for ((phrase, _), is_used) in TRANSLATIONS.iter().zip(&mut is_used) {
                    *is_used |= text.contains(phrase);
                }
                let message = translate_message(without_placeholders(&text));
                let foreign = FOREIGN.iter().find(|word| message.contains(**word));
                assert_eq!(foreign, None, "{}: {message}", file.display());
            }
        }
        let unused: Vec<_> = TRANSLATIONS.iter().zip(&is_used).filter(|(_, is_used)| !**is_used).collect();
        assert!(unused.is_empty(), "the library does not say any more: {unused:?}");
    }

    #[test]
    fn translate_message_removes_calls_of_sql() {
        assert_eq!(translate_message(format!("written by `export`{BY_SQL}\"copy\")")), "written by `export`");
    }
}
