//! Generates the parts of the manuals in `man/` that the code defines. A test fails if a page differs. This module is
//! compiled for tests only.
//!
//! A page is its own source. The parts between `.\" generated: NAME` and `.\" end` are generated, the rest is written
//! by hand. `UPDATE_MANUALS=1 cargo test --lib manual` regenerates those parts.

mod commands;
mod example;
mod roff;
mod settings;
mod wire;

use std::path::PathBuf;

use clap::CommandFactory;

/// A generated part of a page.
struct Part {
    name: String,
    text: String,
}

struct Page {
    file: &'static str,
    parts: Vec<Part>,
}

fn part(name: impl Into<String>, text: String) -> Part {
    Part {
        name: name.into(),
        text,
    }
}

fn pages() -> Vec<Page> {
    let hermesd = crate::daemon::args::Args::command();
    let hermesctl = crate::cli::Args::command();
    let mut verbs = vec![
        part("options", commands::global_options(&hermesctl)),
        part("exit codes", commands::exit_codes(&hermesctl)),
    ];
    verbs.extend(commands::verbs(&hermesctl));
    vec![
        Page {
            file: "hermesd.8",
            parts: vec![
                part("options", commands::options(&hermesd)),
                part("exit codes", commands::exit_codes(&hermesd)),
            ],
        },
        Page {
            file: "hermesctl.1",
            parts: verbs,
        },
        Page {
            file: "hermesd.toml.5",
            parts: vec![part("settings", settings::all())],
        },
        Page {
            file: "hermesd-control.7",
            parts: vec![
                part("methods", wire::methods()),
                part("objects", wire::objects()),
                part("events", wire::events()),
            ],
        },
        Page {
            file: "hermesd-handoff.7",
            parts: Vec::new(),
        },
    ]
}

fn path(file: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "man", file].iter().collect()
}

fn read(file: &str) -> String {
    std::fs::read_to_string(path(file)).unwrap_or_else(|e| panic!("man/{file}: {e}"))
}

const BEGIN: &str = ".\\\" generated: ";
const END: &str = ".\\\" end";

/// Regenerates the parts of a page. Panics if a part has no place in the page, or a place has no part.
fn regenerated(page: &Page, found: &str) -> String {
    let mut made = String::new();
    let mut missing: Vec<&str> = page.parts.iter().map(|part| part.name.as_str()).collect();
    let mut lines = found.lines();
    while let Some(line) = lines.next() {
        made.push_str(line);
        made.push('\n');
        let Some(name) = line.strip_prefix(BEGIN) else {
            continue;
        };
        let part = page.parts.iter().find(|part| part.name == name);
        let part = part.unwrap_or_else(|| panic!("man/{}: no code generates {name:?}", page.file));
        assert!(
            missing.contains(&name),
            "man/{}: {name:?} is there twice",
            page.file
        );
        missing.retain(|other| *other != name);
        made.push_str(&part.text);
        made.push_str(END);
        made.push('\n');
        assert!(
            lines.any(|line| line == END),
            "man/{}: {name:?} has no end",
            page.file
        );
    }
    assert!(
        missing.is_empty(),
        "man/{} has no place for {missing:?}: write `{BEGIN}NAME` and `{END}` where each belongs",
        page.file
    );
    made
}

#[test]
fn the_pages_say_what_the_code_defines() {
    for page in pages() {
        let found = read(page.file);
        let made = regenerated(&page, &found);
        if std::env::var_os("UPDATE_MANUALS").is_some() {
            std::fs::write(path(page.file), &made).expect("a writable page");
            continue;
        }
        let differs = found
            .lines()
            .zip(made.lines())
            .find(|(found, made)| found != made)
            .or_else(|| (found != made).then_some(("its length", "another")));
        assert!(
            differs.is_none(),
            "man/{} is out of date: run UPDATE_MANUALS=1 cargo test --lib manual\n{differs:?}",
            page.file
        );
    }
}

#[test]
fn every_page_is_of_this_version_and_can_be_found() {
    for page in pages() {
        let text = read(page.file);
        let (name, section) = page.file.rsplit_once('.').expect("a section");
        let title = format!(".TH {} {section} ", name.to_ascii_uppercase());
        let head = text
            .lines()
            .find(|line| line.starts_with(".TH"))
            .expect(".TH");
        assert!(
            head.starts_with(&title) && head.contains(&format!("\"hermesd {}\"", crate::VERSION)),
            "man/{}: {head}",
            page.file
        );
        for other in pages().iter().filter(|other| other.file != page.file) {
            let (name, section) = other.file.rsplit_once('.').expect("a section");
            let reference = format!(".BR {} ({section})", roff::literal(name));
            assert!(
                text.contains(&reference),
                "man/{} does not refer to {}",
                page.file,
                other.file
            );
        }
    }
}

#[test]
fn the_page_of_the_protocol_has_every_refusal_and_every_code() {
    let text = read("hermesd-control.7");
    for kind in crate::domain::RefusalKind::ALL.map(crate::domain::RefusalKind::as_str) {
        let entry = format!("\n.B {}\n", kind.replace('-', "\\-"));
        assert!(text.contains(&entry), "hermesd-control.7 lacks {kind:?}");
    }
    for code in wire::codes() {
        let entry = format!("\n.B {}\n", code.replace('-', "\\-"));
        assert!(text.contains(&entry), "hermesd-control.7 lacks {code}");
    }
}

#[test]
fn the_page_of_handoffs_has_every_state_stage_and_command() {
    use crate::domain::slash_command::{Place, menu};
    use crate::domain::{HandoffStage, HandoffState};
    let text = read("hermesd-handoff.7");
    let states = HandoffState::ALL.map(HandoffState::as_str);
    let stages = HandoffStage::ALL.map(HandoffStage::as_str);
    let words = states.into_iter().chain(stages).map(str::to_owned);
    let commands = menu(Place::Chat).chain(menu(Place::Terminal));
    for word in words.chain(commands.map(|entry| format!("/{}", entry.word))) {
        assert!(
            text.contains(&format!("\n.B {word}\n")) || text.contains(&format!("\n.BI {word} ")),
            "hermesd-handoff.7 lacks {word}"
        );
    }
}
