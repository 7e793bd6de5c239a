//! Checks that the rooms of each folder use each other in one direction.
//!
//! A room is a module of a folder: a file or a folder, perhaps with a file beside it. The folder's `lib.rs` or `mod.rs`
//! is above all its rooms. Paths show which room uses which (`imports.rs`), and so do calls of methods that stand in
//! another room than their type (`methods.rs`).

use std::collections::BTreeSet;
use std::path::Path;

use crate::imports::{Crate, ModulePath, module_of};
use crate::methods::{inherent_impls, method_uses};
use crate::{crate_folders, source};

/// The order of a folder's rooms, layer by layer from the bottom: each room uses only rooms of earlier layers.
type Layers = &'static [&'static [&'static str]];

/// The sources of each crate, and folders in them that have an order of their own.
const FOLDERS: &[(&str, Layers)] = &[
    (
        "crates/mapping/src",
        &[
            &["element", "error", "sync"],
            &["mode"],
            &["os"],
            &["metadata"],
            &["disk", "fault_cause"],
            &["guard"],
            &["sys"],
            &["change_check", "checksum", "growable", "reserve"],
            &["unmapped_file"],
            &["mapping"],
            &["shared_file", "view", "wait_set"],
            &["shared_words"],
        ],
    ),
    (
        "crates/arrowwood/src",
        &[
            &["append_vec", "redact", "escape"],
            &["error"],
            &["map", "types", "blocking"],
            &["directory"],
            &["array", "parallel"],
            &["dataset"],
            &["ipc", "compute", "text", "cdata"],
            &["rows"],
            &["table"],
            &["files"],
            &["partitions"],
            &["open"],
            &["check"],
        ],
    ),
    ("crates/arrowwood/src/ipc", &[&["framing"], &["read", "write"]]),
    (
        "crates/arrowwood/src/compute",
        &[
            &["random", "scan"],
            &["selection"],
            &["kernels"],
            &["expr", "gather"],
            &["view"],
            &["group"],
            &["reduce", "sort"],
            &["statistics"],
        ],
    ),
    (
        "crates/arrowwood/src/table",
        &[&["format"], &["placement", "zones"], &["protocol"], &["reader"], &["writer"], &["check"]],
    ),
    (
        "crates/objects/src",
        &[
            &["client", "range_set", "runtime"],
            &["error"],
            &["location"],
            &["object"],
            &["fetcher", "upload"],
            &["open"],
            &["push"],
        ],
    ),
    ("crates/flight/src", &[&["messages", "status"], &["framing", "ipc_stream", "target"], &["sql"]]),
    (
        "crates/serve/src",
        &[
            &["change_time", "hex", "http", "typed_array"],
            &["ops", "replica"],
            &["auth", "catalog"],
            &["session"],
            &["ingest", "read"],
            &["sql"],
            &["flight", "view"],
            &["server"],
        ],
    ),
    ("crates/cli/src", &[&["shell"], &["engine", "rows"], &["verbs"]]),
    ("crates/cli/src/shell", &[&["printable", "print", "progress"], &["error"], &["reader"]]),
    ("crates/cli/src/rows", &[&["open", "text_args", "detect_format", "output"], &["input"]]),
    ("crates/cli/src/verbs", &[&["convert", "inspect", "network", "table", "usage"]]),
    (
        "crates/datafusion/src",
        &[&["error"], &["cancel_token", "exact_size", "pushdown", "statistics"], &["scan"], &["follow", "table"]],
    ),
    (
        "crates/query/src",
        &[&["functions"], &["plans", "statements"], &["engine"], &["cluster", "processes"], &["command"]],
    ),
    ("crates/datafusion/python/src", &[&["codec"]]),
    (
        "bindings/python/src",
        &[
            &["interpreter"],
            &["arguments"],
            &["exchange"],
            &["types"],
            &["convert"],
            &["dataset"],
            &["incoming"],
            &["io"],
            &["table"],
        ],
    ),
    (
        "bindings/c/src",
        &[
            &["checked_mutex", "error", "translation"],
            &["ffi"],
            &["columns", "library", "value"],
            &["dataset", "predicate"],
            &["cdata", "chunks", "compute", "follow", "maintain", "open"],
            &["builder", "messages", "writer"],
        ],
    ),
];

/// Rooms that have methods of another room's type: the room, the type, and the reason.
const FOREIGN_METHODS: &[(&str, &str, &str)] = &[
    ("crates/arrowwood/src/cdata", "Column", "exports need the unsafe code of this room"),
    ("crates/arrowwood/src/cdata", "Dataset", "exports and imports need the unsafe code of this room"),
    ("crates/arrowwood/src/check", "Dataset", "checks of values, which only this room calls"),
    ("crates/arrowwood/src/compute", "Column", "verbs of the feature `compute`"),
    ("crates/arrowwood/src/compute", "Dataset", "verbs of the feature `compute`"),
    ("crates/arrowwood/src/ipc", "Dataset", "`messages` of a dataset that is one file or stream"),
    ("crates/arrowwood/src/open", "Dataset", "`file_slices`, the inverse of opening several files"),
    ("crates/arrowwood/src/partitions", "Dataset", "verbs of partitioned datasets"),
    ("crates/arrowwood/src/rows", "Dataset", "verbs of the feature `collect`"),
    ("crates/arrowwood/src/rows", "StreamReader", "verbs of the feature `collect`"),
    ("crates/arrowwood/src/table", "Column", "verbs of the feature `table`"),
    ("crates/arrowwood/src/table", "Dataset", "verbs of the feature `table`"),
    ("crates/arrowwood/src/table", "IncrementalAggregation", "its `refresh` needs a table"),
    ("crates/arrowwood/src/text", "Dataset", "verbs that print"),
    ("crates/arrowwood/src/text", "Value", "verbs that print"),
    ("crates/mapping/src/checksum", "MemoryRegion", "its unsafe code has a file of its own"),
    ("crates/mapping/src/view", "Mapping", "the constructor of views, which the documentation shows at the mapping"),
];

/// A use of a room by another one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct RoomUse {
    user: String,
    /// `None` is the folder's `lib.rs` or `mod.rs`.
    used: Option<String>,
    /// The file, and what it uses.
    place: String,
}

/// A folder of a crate.
struct Folder<'a> {
    path: &'a str,
    module: ModulePath,
    files: &'a Crate,
}

impl<'a> Folder<'a> {
    fn new(path: &'a str, files: &'a Crate) -> Folder<'a> {
        Folder { path, module: module_of(&Path::new(path).join("mod.rs")), files }
    }

    fn contains(&self, module: &ModulePath) -> bool {
        module.starts_with(&self.module)
    }

    /// Returns the room of a module, unless it is the folder's own or outside of the folder.
    fn room_of<'m>(&self, module: &'m ModulePath) -> Option<&'m str> {
        module.strip_prefix(self.module.as_slice())?.first().map(String::as_str)
    }

    fn rooms(&self) -> BTreeSet<&str> {
        self.files.modules().filter_map(|(module, _)| self.room_of(module)).collect()
    }

    fn uses(&self) -> BTreeSet<RoomUse> {
        let mut uses = BTreeSet::new();
        let mut add = |user: &ModulePath, used: &ModulePath, what: &str| {
            let used_room = self.room_of(used);
            if let Some(room) = self.room_of(user)
                && self.contains(used)
                && used_room != Some(room)
            {
                let place = format!("{}: {what}", self.files.path_of(user).display());
                uses.insert(RoomUse { user: room.to_owned(), used: used_room.map(str::to_owned), place });
            }
        };
        for used in self.files.module_uses() {
            let what = used.path.join("::");
            add(&used.user, &used.defining, &what);
            // A room is also used if it only re-exports the item. The folder's own file may re-export everything.
            if self.room_of(&used.named).is_some() {
                add(&used.user, &used.named, &what);
            }
        }
        for used in method_uses(self.files) {
            if self.room_of(&used.used) != self.room_of(&used.type_module) {
                add(&used.user, &used.used, &used.method);
            }
        }
        uses
    }

    /// Returns the rooms that have methods of types of the folder's other rooms, and these types.
    fn foreign_methods(&self) -> BTreeSet<(String, String)> {
        let mut foreign_methods = BTreeSet::new();
        for block in inherent_impls(self.files) {
            if let Some(room) = self.room_of(&block.module)
                && self.contains(&block.type_module)
                && self.room_of(&block.type_module) != Some(room)
            {
                foreign_methods.insert((format!("{}/{room}", self.path), block.type_name));
            }
        }
        foreign_methods
    }

    /// Returns what is wrong with the list of layers.
    fn wrong_layers(&self, layers: &[&[&str]]) -> Vec<String> {
        let rooms = self.rooms();
        let listed: Vec<&str> = layers.concat();
        let mut violations = Vec::new();
        for room in &rooms {
            if listed.iter().filter(|listed| *listed == room).count() != 1 {
                violations.push(format!("{}/{room} is not in one layer of FOLDERS", self.path));
            }
        }
        let removed = listed.iter().filter(|room| !rooms.contains(*room));
        violations.extend(removed.map(|room| format!("{}/{room}, which is in FOLDERS, is no more", self.path)));
        violations
    }

    /// Returns the uses of rooms that are not below their users.
    fn uses_upwards(&self, layers: &[&[&str]]) -> Vec<RoomUse> {
        let layer_of = |room: &str| layers.iter().position(|rooms| rooms.contains(&room));
        let is_below = |used: &RoomUse| used.used.as_ref().is_some_and(|room| layer_of(room) < layer_of(&used.user));
        self.uses().into_iter().filter(|used| !is_below(used)).collect()
    }

    /// Prints the folder's numbers as a row of a table, and the pairs of rooms that use each other.
    fn print_counts(&self) {
        let file_count = self.files.modules().filter(|(module, _)| self.contains(module)).count();
        let is_inside = |file: &&Path| file.starts_with(self.path);
        let uses = self.files.uses();
        let users = uses.iter().filter(|(user, _)| is_inside(user));
        let file_use_count: usize = users.map(|(_, used)| used.iter().filter(|file| is_inside(file)).count()).sum();
        let room_uses: BTreeSet<_> = self.uses().into_iter().filter_map(|used| Some((used.user, used.used?))).collect();
        let pairs: Vec<String> = room_uses
            .iter()
            .filter(|(user, used)| user < used && room_uses.contains(&(used.clone(), user.clone())))
            .map(|(user, used)| format!("{user} ⇄ {used}"))
            .collect();
        println!(
            "| `{}` | {} | {file_count} | {file_use_count} | {} | {} | {} | {} |",
            self.path,
            self.rooms().len(),
            room_uses.len(),
            pairs.len(),
            self.foreign_methods().len(),
            pairs.join(", ")
        );
    }
}

/// Returns the folder of the crate's sources that `folder` is in.
fn crate_sources(folder: &str) -> &str {
    &folder[..folder.find("/src").unwrap() + "/src".len()]
}

#[test]
fn rooms_use_only_lower_layers() {
    let mut violations = Vec::new();
    let mut use_count = 0;
    for (path, layers) in FOLDERS {
        let files = Crate::read(crate_sources(path));
        let folder = Folder::new(path, &files);
        use_count += folder.uses().len();
        violations.extend(folder.wrong_layers(layers));
        for RoomUse { user, used, place } in folder.uses_upwards(layers) {
            let used = used.as_deref().unwrap_or("the folder above it");
            violations.push(format!("{place}: {user} uses {used}, which is not below it"));
        }
    }
    assert!(use_count > 1000, "only {use_count} uses found: the search is broken");
    assert!(violations.is_empty(), "{}", violations.join("\n"));
}

#[test]
fn methods_stand_in_the_room_of_their_type() {
    let mut found = BTreeSet::new();
    for (path, _) in FOLDERS {
        found.extend(Folder::new(path, &Crate::read(crate_sources(path))).foreign_methods());
    }
    let listed: BTreeSet<_> =
        FOREIGN_METHODS.iter().map(|(room, type_name, _)| (room.to_string(), type_name.to_string())).collect();
    let unlisted: Vec<_> = found.difference(&listed).collect();
    assert!(unlisted.is_empty(), "rooms with methods of another room's type: {unlisted:?}");
    let removed: Vec<_> = listed.difference(&found).collect();
    assert!(removed.is_empty(), "remove from FOREIGN_METHODS: {removed:?}");
}

#[test]
fn each_crate_has_rooms() {
    for folder in crate_folders() {
        let folder = format!("{folder}/src");
        assert!(FOLDERS.iter().any(|(path, _)| *path == folder), "{folder} is not in FOLDERS");
    }
}

/// With `--nocapture`, `cargo test` shows the table.
#[test]
fn counts_are_printed() {
    println!("| folder | rooms | files | uses of files | of rooms | pairs of rooms | foreign methods | which pairs |");
    println!("|---|---:|---:|---:|---:|---:|---:|---|");
    for (path, _) in FOLDERS {
        Folder::new(path, &Crate::read(crate_sources(path))).print_counts();
    }
}

/// Returns a crate of two rooms: a hall with a type, and a kitchen with methods of it.
fn house(hall: &str, kitchen: &str) -> Crate {
    Crate::new([
        source("src/lib.rs", "mod hall;\nmod kitchen;\npub use hall::Guest;\npub fn bell() {}\n"),
        source("src/hall/mod.rs", "mod door;\nmod guest;\npub use guest::Guest;\n"),
        source("src/hall/guest.rs", "pub struct Guest;\nimpl Guest {\n    pub fn sit(&self) {}\n}\n"),
        source("src/hall/door.rs", hall),
        source("src/kitchen.rs", kitchen),
    ])
}

const COOK: &str = "use crate::hall::Guest;\nimpl Guest {\n    pub fn eat(&self) {}\n    pub fn min(&self) {}\n}\n\
                    pub trait Cook {}\nimpl Cook for Guest {}\npub fn oven() {}\n";

const HOUSE_LAYERS: &[&[&str]] = &[&["hall"], &["kitchen"]];

fn uses_upwards(hall: &str, kitchen: &str) -> Vec<String> {
    let files = house(hall, kitchen);
    let uses = Folder::new("src", &files).uses_upwards(HOUSE_LAYERS);
    uses.into_iter().map(|used| used.place).collect()
}

#[test]
fn uses_of_higher_and_equal_layers_are_found() {
    assert_eq!(uses_upwards("use crate::Guest;\nuse super::guest;\n", COOK), [""; 0]);
    assert_eq!(
        uses_upwards("use crate::kitchen::{self, oven};\n", COOK),
        ["src/hall/door.rs: kitchen", "src/hall/door.rs: kitchen::oven"]
    );
    assert_eq!(uses_upwards("fn f() { super::super::kitchen::oven() }\n", COOK), ["src/hall/door.rs: kitchen::oven"]);
    assert_eq!(uses_upwards("use crate::bell;\n", COOK), ["src/hall/door.rs: bell"]);
    let files = house("", COOK);
    assert_eq!(Folder::new("src", &files).uses_upwards(&[&["hall", "kitchen"]]).len(), 1);
    assert_eq!(Folder::new("src/hall", &files).uses_upwards(&[&["door"], &["guest"]]), []);
}

#[test]
fn calls_of_methods_in_higher_rooms_are_found() {
    let eat = "src/hall/door.rs: Guest::eat";
    let min = "src/hall/door.rs: Guest::min";
    let calls = [
        // Only a guest can eat.
        ("fn f() { open().eat(); }\n", eat),
        ("fn f() { Guest::eat(&open()); }\n", eat),
        ("fn f() { open()\n    .map(Guest::eat); }\n", eat),
        // Numbers have a minimum, too.
        ("fn f(guest: &'a mut super::Guest) { guest\n    .min(); }\n", min),
        ("struct Seat {\n    guest: Guest,\n}\nimpl Seat { fn f(&self) { self.guest.min(); } }\n", min),
        ("impl Guest {\n    fn f(&self) { self.min(); }\n}\n", min),
        ("impl<'a> Leave for Guest {\n    fn f(&self) { self.min(); }\n}\n", min),
    ];
    for (hall, place) in calls {
        assert_eq!(uses_upwards(hall, COOK), [place], "{hall}");
    }
    for hall in [
        "fn f(guest: &Guest) { guest.sit(); }\n",
        "fn f(number: u8, guest: &Guest) { number.min(1); guest.eat; }\n",
        "impl Seat {\n    fn f(&self) { self.min(); }\n}\n",
        "struct Fly;\nimpl Fly {\n    fn eat(&self) {}\n    fn f(&self) { open().eat(); }\n}\n",
    ] {
        assert_eq!(uses_upwards(hall, COOK), [""; 0], "{hall}");
    }
}

#[test]
fn foreign_methods_are_found() {
    let foreign = |folder: &str, hall, kitchen| Folder::new(folder, &house(hall, kitchen)).foreign_methods();
    let guest = ("src/kitchen".to_owned(), "Guest".to_owned());
    assert_eq!(foreign("src", "", COOK), [guest.clone()].into());
    assert_eq!(foreign("src", "", "use crate::hall;\nimpl<T: Fn() -> u8> hall::Guest<T> {}\n"), [guest].into());
    let own_methods =
        "struct Pan<T>(T);\nimpl<T> Pan<T> {}\nimpl dyn Cook {}\npub trait Cook {}\nimpl Cook for Guest {}\n";
    assert_eq!(foreign("src", "use super::Guest;\nimpl Guest {}\n", own_methods), BTreeSet::new());
    let door = ("src/hall/door".to_owned(), "Guest".to_owned());
    assert_eq!(foreign("src/hall", "use super::Guest;\nimpl Guest {}\n", own_methods), [door].into());
}

#[test]
fn each_room_must_be_in_one_layer() {
    let files = house("", COOK);
    let folder = Folder::new("src", &files);
    assert_eq!(folder.wrong_layers(HOUSE_LAYERS), [""; 0]);
    assert_eq!(folder.wrong_layers(&[&["hall"]]), ["src/kitchen is not in one layer of FOLDERS"]);
    assert_eq!(folder.wrong_layers(&[&["hall", "kitchen"], &["hall"]]), ["src/hall is not in one layer of FOLDERS"]);
    let removed = folder.wrong_layers(&[&["hall", "kitchen", "attic"]]);
    assert_eq!(removed, ["src/attic, which is in FOLDERS, is no more"]);
}
