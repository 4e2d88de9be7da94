//! Lists as they look in terminals of different widths, and outside of them.

use crate::support::pty::Terminal;
use crate::support::{Home, add_session};

const LONG: &str =
    "A long story about the parser that does not fit into any terminal of a usual width";
const TITLES: [&str; 4] = ["日本語のセッション", LONG, "👩‍👩‍👧 family", "Short"];

fn home() -> Home {
    let home = Home::new();
    drop(home.store());
    for (at, title) in TITLES.iter().enumerate() {
        add_session(&home, &format!("20260101_09000{at}_bbbbbb"), title);
    }
    home
}

/// The screen of `hermesctl sessions` at this width.
fn listed(home: &Home, columns: u16) -> Vec<String> {
    let mut terminal = Terminal::open(home, &["sessions"], columns, 40);
    assert_eq!(terminal.end(), 0);
    let screen = terminal.screen();
    screen.lines().map(str::to_owned).collect()
}

#[test]
fn a_list_fits_the_terminal() {
    let home = home();
    for columns in [120, 80, 60] {
        let lines = listed(&home, columns);
        assert_eq!(lines.len(), 1 + TITLES.len(), "{columns}: {lines:#?}");
        assert!(lines[0].starts_with("ID"), "{columns}: {lines:#?}");
        let ids = lines[1..]
            .iter()
            .filter(|line| line.starts_with("20260101_"));
        assert_eq!(ids.count(), TITLES.len(), "{columns}: {lines:#?}");
        assert!(lines.iter().any(|line| line.contains("Short")));
        assert!(lines.iter().any(|line| line.contains("日本語のセッション")));
        assert!(
            lines
                .iter()
                .any(|line| line.contains("A long story about") && line.contains('…'))
        );
    }
    assert!(listed(&home, 80)[0].contains("SOURCE"));
    assert!(
        !listed(&home, 60)[0].contains("MESSAGES"),
        "the less important columns go"
    );
    let stacked = listed(&home, 30).join("\n");
    assert!(stacked.contains("title     Short"), "{stacked}");
    assert!(stacked.contains("source    cli"), "{stacked}");
}

#[test]
fn nothing_is_cut_where_no_terminal_is() {
    let ran = home().hermesctl(&["sessions"]);
    assert!(ran.stdout.contains(LONG), "{ran:?}");
    assert!(ran.stdout.contains("MESSAGES"), "{ran:?}");
}

#[test]
fn a_dumb_terminal_gets_no_styles() {
    let home = home();
    for (term, bold) in [("xterm", true), ("dumb", false)] {
        let mut command = home.command(env!("CARGO_BIN_EXE_hermesctl"));
        command.arg("sessions").env("TERM", term);
        let mut terminal = Terminal::of(command, 100, 20);
        assert_eq!(terminal.end(), 0);
        assert_eq!(terminal.is_bold(0, "ID"), bold, "{term}");
    }
}
