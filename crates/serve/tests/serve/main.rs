//! Tests of the server: its responses and refusals, also when clients, disks or files fail.

#[macro_use]
#[path = "../../../../tests/support/alone.rs"]
mod alone;
#[path = "../../../../tests/support/columns.rs"]
mod columns;
#[path = "../../../../tests/support/dice.rs"]
mod dice;
#[path = "../../../../tests/support/failing_assertion.rs"]
mod failing_assertion;
#[expect(dead_code, reason = "only some of the messages are used")]
#[path = "../../../../tests/support/handmade.rs"]
mod handmade;
#[expect(dead_code, reason = "only `samples` is used")]
#[path = "../../../../tests/support/samples.rs"]
mod samples;
#[expect(dead_code, reason = "marks are for tests without a server")]
#[path = "../../../../tests/support/simulated_disk.rs"]
mod simulated_disk;
mod support;
#[path = "../../../../tests/support/tables.rs"]
mod tables;
#[path = "../../../../tests/support/wait.rs"]
mod wait;

mod disk;
mod equal;
mod exact;
mod failed_assertions;
mod flight;
mod follow;
mod hostile;
mod lies;
mod limits;
mod line;
mod many;
mod operating;
mod outlive;
mod parsers;
mod read;
mod removed;
mod reset;
mod security;
mod unread;
mod view;
mod write;
