//! Says which tables the holder of a token may read and write.

/// The rights of a token.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rights {
    /// Patterns of readable tables; `*` matches any characters.
    pub read: Vec<String>,
    /// Patterns of writable tables.
    pub write: Vec<String>,
}

impl Rights {
    /// Returns the rights to read and write all tables.
    pub fn all() -> Rights {
        Rights { read: vec!["*".into()], write: vec!["*".into()] }
    }

    /// Returns true if table `name` may be read.
    pub fn may_read(&self, name: &str) -> bool {
        self.read.iter().any(|pattern| matches(pattern.as_bytes(), name.as_bytes()))
    }

    /// Returns true if table `name` may be written.
    pub fn may_write(&self, name: &str) -> bool {
        self.write.iter().any(|pattern| matches(pattern.as_bytes(), name.as_bytes()))
    }

    /// Returns true if no table may be written.
    pub(crate) fn writes_nothing(&self) -> bool {
        self.write.is_empty()
    }

    /// Returns true if every table may be read.
    pub(crate) fn may_read_all(&self) -> bool {
        self.read.iter().any(|pattern| pattern == "*")
    }
}

/// Returns true if `pattern`, in which `*` matches any bytes, matches `name`.
fn matches(pattern: &[u8], name: &[u8]) -> bool {
    let mut pattern_index = 0;
    let mut name_index = 0;
    // The index of the last star, and of the first byte of the name that it does not match.
    let mut last_star = None;
    while name_index < name.len() {
        match pattern.get(pattern_index) {
            Some(b'*') => {
                last_star = Some((pattern_index, name_index));
                pattern_index += 1;
            }
            Some(byte) if *byte == name[name_index] => {
                pattern_index += 1;
                name_index += 1;
            }
            _ => {
                // The last star has to match one byte more.
                let Some((star, end)) = last_star else { return false };
                last_star = Some((star, end + 1));
                pattern_index = star + 1;
                name_index = end + 1;
            }
        }
    }
    pattern[pattern_index..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_match_any_characters() {
        for (pattern, name, fits) in [
            ("*", "", true),
            ("*", "ticks", true),
            ("ticks", "ticks", true),
            ("ticks", "ticks2", false),
            ("tick", "ticks", false),
            ("t*s", "ticks", true),
            ("t*s", "tick", false),
            ("*a*b*", "xxaxxbxx", true),
            ("*a*b*", "xxbxxaxx", false),
            ("a**", "a", true),
            ("", "", true),
            ("", "a", false),
            ("*ab", "aab", true),
        ] {
            assert_eq!(matches(pattern.as_bytes(), name.as_bytes()), fits, "{pattern} {name}");
        }
    }
}
