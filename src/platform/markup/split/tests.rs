//! Tests the cuts by example, and the properties of all texts.

use crate::testing::processor_time;
use std::time::Duration;

use proptest::prelude::*;
use pulldown_cmark::{CodeBlockKind, Event, Parser, Tag};

use super::super::Measure;

/// In UTF-16 code units.
fn split(markdown: &str, longest: usize) -> Vec<String> {
    super::split(markdown, longest, Measure::Utf16)
}

fn length(text: &str) -> usize {
    text.encode_utf16().count()
}

fn words(count: usize) -> String {
    vec!["word"; count].join(" ")
}

#[test]
fn what_fits_stays_as_it_is() {
    assert_eq!(split("  a\n\n```\nb ", 64), ["  a\n\n```\nb "]);
    assert_eq!(split(&"🎉".repeat(32), 64), ["🎉".repeat(32)]);
    assert_eq!(split(&"🎉".repeat(33), 64).len(), 2);
    assert!(split("", 64).is_empty());
    assert!(split(&" \n\t\u{a0}".repeat(99), 64).is_empty());
}

#[test]
fn it_is_cut_where_it_hurts_least() {
    let [long, short] = [words(8), words(3)];
    assert_eq!(
        split(&format!("{short}\n\n{short}\n{short}\n{long}"), 64),
        [format!("{short}\n\n{short}\n{short}"), long.clone()]
    );
    let paragraphs = format!("{long}\n\n{short}\n{long}");
    assert_eq!(
        split(&paragraphs, 64),
        [long.clone(), format!("{short}\n{long}")]
    );
    assert_eq!(
        split(&format!("a\n\n{}", words(14)), 64),
        [format!("a\n\n{}", words(12)), words(2)]
    );
    assert_eq!(
        split(&format!("see {}", "x".repeat(70)), 64),
        ["see".to_owned(), "x".repeat(64), "x".repeat(6)]
    );
    let family = "👨‍👩‍👧".repeat(9);
    let pieces = split(&family, 64);
    assert_eq!(pieces, ["👨‍👩‍👧".repeat(8), "👨‍👩‍👧".to_owned()]);
    assert_eq!(
        split(&format!("e{}", "\u{301}".repeat(70)), 64)[0].len(),
        127
    );
}

#[test]
fn a_heading_stays_with_its_text() {
    let [long, heading] = [words(8), format!("# A\n\n{}", words(6))];
    assert_eq!(split(&format!("{long}\n\n{heading}"), 64), [long, heading]);
}

#[test]
fn lists_keep_their_indentation() {
    let list = format!("- {}\n\n  - a\n  - b {}", words(8), words(5));
    assert_eq!(split(&list, 64)[1], format!("  - a\n  - b {}", words(5)));
    let deep = list.replace("  - ", "    - ");
    assert!(split(&deep, 64)[1].starts_with("- a\n"));
}

#[test]
fn code_is_closed_and_opened_again() {
    let code = "let a = 1;\n    let b = 2;\n".repeat(4);
    let half = ["let a = 1;\n    let b = 2;"; 2].join("\n");
    for (opening, closing) in [("```rust", "```"), ("~~~ `b`", "~~~"), ("`````", "`````")] {
        let text = format!("{opening}\n{code}{closing}");
        let pieces = split(&text, 64);
        assert_eq!(pieces.len(), 2, "{pieces:?}");
        for piece in pieces {
            assert_eq!(piece, format!("{opening}\n{half}\n{closing}"));
        }
    }
}

#[test]
fn it_is_rather_cut_before_code_than_within() {
    let text = format!("{}\n```\n{}\n\n{}\n```", words(6), words(4), words(4));
    assert_eq!(
        split(&text, 64),
        [words(6), format!("```\n{}\n\n{}\n```", words(4), words(4))]
    );
}

#[test]
fn code_within_a_list_is_code() {
    let code = "    let a = 1;\n      let b = 2;\n".repeat(3);
    let text = format!("- a\n\n  - b\n\n    ```rs\n{code}    ```\n  - c");
    assert_eq!(
        split(&text, 64),
        [
            "- a\n\n  - b\n\n    ```rs\n    let a = 1;\n      let b = 2;\n    ```",
            "```rs\nlet a = 1;\n  let b = 2;\nlet a = 1;\n  let b = 2;\n```",
            "  - c",
        ]
    );
    let text = format!("- a\n\n   ~~~\n{}   ~~~", "    abcdef\n".repeat(9));
    assert_eq!(
        split(&text, 64)[1],
        format!(" ~~~\n{} ~~~", "  abcdef\n".repeat(5))
    );
    let text = format!("1. ```\n   {}\n   ```\n{}", words(5), words(9));
    assert_eq!(
        split(&text, 64),
        [format!("1. ```\n   {}\n   ```", words(5)), words(9)]
    );
}

#[test]
fn long_lines_of_code_are_cut_too() {
    let text = format!("```js\n{}\n```\nend", "x".repeat(120));
    assert_eq!(
        split(&text, 64),
        [
            format!("```js\n{}\n```", "x".repeat(54)),
            format!("```js\n{}\n```", "x".repeat(54)),
            format!("```js\n{}\n```\nend", "x".repeat(12)),
        ]
    );
}

#[test]
fn no_piece_is_white_space_within_fences() {
    let text = format!("```\na\n{}b\n```", " ".repeat(300));
    let pieces = split(&text, 64);
    assert!(pieces.iter().all(|p| p.contains(['a', 'b'])), "{pieces:?}");
}

#[test]
fn marks_within_a_line_are_no_fence() {
    let text = format!("```a``` {}\n{}", words(9), words(5));
    assert_eq!(
        split(&text, 64),
        [format!("```a``` {}", words(9)), words(5)]
    );
    let text = format!("{} ~~~~~~ {}", words(12), words(5));
    assert_eq!(
        split(&text, 64),
        [words(11), format!("word ~~~~~~ {}", words(5))]
    );
}

#[test]
fn code_that_is_closed_at_the_cut_is_not_opened_again() {
    let text = format!("```\n{}\n\n\n\n``````\nend {}", words(11), words(6));
    assert_eq!(
        split(&text, 64),
        [
            format!("```\n{}\n```", words(11)),
            format!("end {}", words(6))
        ]
    );
}

#[test]
fn a_language_without_end_is_not_repeated() {
    let text = format!("```{}\n{}\n```", "x".repeat(30), words(20));
    let pieces = split(&text, 64);
    assert!(
        pieces[1..]
            .iter()
            .all(|piece| piece.starts_with("```\nword"))
    );
    let text = format!("```{}\ncode\n```", "x".repeat(200));
    let pieces = split(&text, 64);
    assert_eq!(pieces[0], format!("```{}\n```", "x".repeat(57)));
    assert!(pieces[3].ends_with("x\ncode\n```"), "{pieces:?}");
}

#[test]
fn an_open_fence_is_left_open_at_the_end() {
    let text = format!("```\n{}\nend", words(12));
    assert_eq!(
        split(&text, 64),
        [
            format!("```\n{}\n```", words(11)),
            "```\nword\nend".to_owned()
        ]
    );
}

/// If every piece read the whole rest, this would take minutes.
#[test]
fn a_megabyte_takes_no_time() {
    let started = processor_time();
    for part in ["x", "a\n", "`", "```\na\n"] {
        let text = format!("a{}b", part.repeat((1 << 20) / part.len()));
        assert!(split(&text, 64).iter().all(|piece| length(piece) <= 64));
    }
    assert!(processor_time() - started < Duration::from_secs(30));
}

fn markdownish() -> impl Strategy<Value = String> {
    text_with("[`~.é字🎉\u{301}]{1,4}")
}

/// Languages are in capitals, so that the test can distinguish them from the rest.
fn text_with(marks: &'static str) -> impl Strategy<Value = String> {
    let part = prop_oneof![
        6 => "[a-z]{1,9}",
        5 => Just(" ".to_owned()),
        3 => Just("\n".to_owned()),
        1 => Just("\n\n".to_owned()),
        1 => "[a-zé字🎉\u{301}]{40,90}",
        1 => marks,
        1 => " {1,6}",
        2 => "\n {0,4}(`{3,6}|~{3,6})[A-Z ]{0,12}\n",
    ];
    prop::collection::vec(part, 0..80).prop_map(|parts| parts.concat())
}

/// Whether all code in fences has a closing line, as a Markdown parser reads it.
fn closes_its_code(piece: &str) -> bool {
    Parser::new(piece).into_offset_iter().all(|(event, range)| {
        let Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(_))) = event else {
            return true;
        };
        let code = piece[range].trim_end();
        let mark = code.chars().next().unwrap();
        let run = code.len() - code.trim_start_matches(mark).len();
        let last = code.lines().skip(1).last().unwrap_or_default().trim();
        last.len() >= run && last.chars().all(|c| c == mark)
    })
}

fn letters(text: &str) -> String {
    text.chars().filter(|c| c.is_lowercase()).collect()
}

fn visible(text: &str) -> String {
    text.chars().filter(|c| !c.is_whitespace()).collect()
}

proptest! {
    #[test]
    fn every_piece_fits_and_shows_something(
        text in prop_oneof![markdownish(), any::<String>(), "[-*1. `~\n>a\t\r🎉\u{301}]{0,400}"], longest in 64usize..200,
    ) {
        let pieces = split(&text, longest);
        for piece in &pieces {
            prop_assert!(length(piece) <= longest, "{:?}", piece);
            prop_assert!(!piece.trim().is_empty());
        }
        prop_assert_eq!(pieces.is_empty(), text.trim().is_empty());
        prop_assert_eq!(&pieces, &split(&text, longest));
        if length(&text) <= longest && !pieces.is_empty() {
            prop_assert_eq!(pieces, [text]);
        }
    }

    #[test]
    fn every_piece_closes_its_code(text in markdownish(), longest in 64usize..200) {
        let pieces = split(&text, longest);
        if let Some((last, others)) = pieces.split_last() {
            for piece in others {
                prop_assert!(closes_its_code(piece), "{:?} of {:#?}", piece, pieces);
            }
            if closes_its_code(&text) {
                prop_assert!(closes_its_code(last), "{:?} of {:#?}", last, pieces);
            }
        }
    }

    #[test]
    fn nothing_is_lost_but_white_space(text in text_with("[`~]{1,2}[.é字🎉\u{301}]"), longest in 64usize..200) {
        let pieces = split(&text, longest).concat();
        prop_assert_eq!(letters(&pieces), letters(&text));
        let without_code = text.replace(['`', '~'], "");
        prop_assert_eq!(visible(&split(&without_code, longest).concat()), visible(&without_code));
    }

    #[test]
    fn what_is_full_does_not_change_while_the_text_grows(text in markdownish(), at in 0usize..400, longest in 64usize..100) {
        let start: String = text.chars().take(at).collect();
        let mut early = split(&start, longest);
        early.pop();
        let whole = split(&text, longest);
        prop_assert!(whole.starts_with(&early), "{:?}", (early, whole));
    }
}

/// The example of each measure is the longest text that fits, and one character more.
#[test]
fn the_measure_decides_what_fits() {
    for (measure, character, count) in [
        (Measure::Utf16, "🎉", 32),
        (Measure::Chars, "🎉", 64),
        (Measure::Bytes, "🎉", 16),
        (Measure::Utf16, "é", 64),
        (Measure::Bytes, "é", 32),
    ] {
        let text = character.repeat(count);
        assert_eq!(super::split(&text, 64, measure), [text.as_str()]);
        let more = super::split(&(text.clone() + character), 64, measure);
        assert_eq!(more, [text.as_str(), character]);
    }
}

/// The language line counts in the measure too: in bytes it is too long to be repeated.
#[test]
fn fences_are_measured() {
    let text = format!("```ééééééééé\n{}\n```", words(20));
    let pieces = super::split(&text, 64, Measure::Chars);
    assert!(pieces[1].starts_with("```ééééééééé\n"), "{pieces:?}");
    let pieces = super::split(&text, 64, Measure::Bytes);
    assert!(pieces[1].starts_with("```\n"), "{pieces:?}");
}

proptest! {
    #[test]
    fn every_piece_fits_in_every_measure(
        text in prop_oneof![markdownish(), any::<String>(), "[-*1. `~\n>aé字🎉\u{301}]{0,400}"],
        longest in 64usize..200,
        measure in prop::sample::select(vec![Measure::Utf16, Measure::Chars, Measure::Bytes]),
    ) {
        let pieces = super::split(&text, longest, measure);
        for piece in &pieces {
            prop_assert!(measure.length(piece) <= longest, "{:?}", piece);
            prop_assert!(!piece.trim().is_empty());
        }
        prop_assert_eq!(pieces.is_empty(), text.trim().is_empty());
    }
}
