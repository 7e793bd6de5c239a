//! Checks that the rooms of the page use each other in one direction, and its files too.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use crate::imports::find_cycles;
use crate::root;

/// The rooms of `web/src`, layer by layer from the bottom: each uses only rooms of earlier layers. The files beside them
/// are above all.
const LAYERS: &[&[&str]] = &[&["data"], &["elements"], &["grid", "panels", "tabs"]];

/// Files, and the files that each of them imports.
type Imports = BTreeMap<PathBuf, BTreeSet<PathBuf>>;

/// Returns the path that an import means. It is relative to the importing file, and names what the compiler makes.
fn resolve(file: &Path, import: &str) -> PathBuf {
    let mut path = file.parent().unwrap().to_owned();
    for part in import.split('/') {
        match part {
            "." => {}
            ".." => assert!(path.pop(), "{}: {import}", file.display()),
            _ => path.push(part),
        }
    }
    path.with_extension("ts")
}

/// Returns the files that a source imports.
fn imports(file: &Path, code: &str) -> BTreeSet<PathBuf> {
    let names = ["from \"", "import \"", "import(\""].iter().flat_map(|start| code.split(start).skip(1));
    names.map(|rest| rest.split('"').next().unwrap()).map(|import| resolve(file, import)).collect()
}

/// Returns what each file in a folder imports, and in the folders below.
fn collect_imports(folder: &Path, below: &Path, all_imports: &mut Imports) {
    for entry in fs::read_dir(folder.join(below)).unwrap().flatten() {
        let file = below.join(entry.file_name());
        if entry.path().is_dir() {
            collect_imports(folder, &file, all_imports);
        } else if file.extension().is_some_and(|ending| ending == "ts") {
            let code = fs::read_to_string(entry.path()).unwrap();
            all_imports.insert(file.clone(), imports(&file, &code));
        }
    }
}

/// Returns the room of a file; `None` if it is beside the rooms.
fn room(file: &Path) -> Option<&str> {
    file.parent()?.to_str().filter(|folder| !folder.is_empty())
}

/// Returns the number of a file's layer.
fn layer(file: &Path) -> usize {
    let layer_of = |room: &str| LAYERS.iter().position(|rooms| rooms.contains(&room));
    room(file).map_or(LAYERS.len(), |room| layer_of(room).unwrap_or_else(|| panic!("{room} is not in LAYERS")))
}

/// Returns the imports between rooms that don't lead to a lower layer.
fn upward_imports(all_imports: &Imports) -> Vec<String> {
    let mut upward = Vec::new();
    for (file, imported) in all_imports {
        for other in imported.iter().filter(|other| room(other) != room(file) && layer(other) >= layer(file)) {
            upward.push(format!("{} imports {}, which is not below it", file.display(), other.display()));
        }
    }
    upward
}

/// Returns the circles of files.
fn cycles(all_imports: &Imports) -> Vec<Vec<&Path>> {
    let uses = all_imports
        .iter()
        .map(|(file, imported)| (file.as_path(), imported.iter().map(PathBuf::as_path).collect()))
        .collect();
    find_cycles(&uses)
}

#[test]
fn rooms_of_the_page_use_only_lower_layers() {
    let mut all_imports = Imports::new();
    collect_imports(&root().join("web/src"), Path::new(""), &mut all_imports);
    let import_count: usize = all_imports.values().map(BTreeSet::len).sum();
    assert!(import_count > 60, "only {import_count} imports found: the search is broken");
    let rooms: BTreeSet<_> = all_imports.keys().filter_map(|file| room(file)).collect();
    assert_eq!(rooms, LAYERS.concat().into_iter().collect());
    assert_eq!(upward_imports(&all_imports), [""; 0]);
    assert!(cycles(&all_imports).is_empty());
}

#[test]
fn upward_imports_and_circles_of_the_page_are_found() {
    let of = |file: &str, code: &str| (PathBuf::from(file), imports(Path::new(file), code));
    let api = of("data/api.ts", "import type { Help } from \"../help.js\";\n");
    let grid =
        of("grid/grid.ts", "import {\n  plot,\n} from \"../tabs/plot.js\";\nimport { el } from \"./touch.js\";\n");
    let touch = of("grid/touch.ts", "import \"./grid.js\";\n");
    let plot = of("tabs/plot.ts", "await import(\"../data/api.js\");\n");
    let help = of("help.ts", "import { el } from \"./grid/grid.js\";\n");
    let all_imports = Imports::from([api, grid, touch, plot, help]);
    assert_eq!(
        upward_imports(&all_imports),
        [
            "data/api.ts imports help.ts, which is not below it",
            "grid/grid.ts imports tabs/plot.ts, which is not below it",
        ]
    );
    assert_eq!(cycles(&all_imports).len(), 1);
}
