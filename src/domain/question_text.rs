//! Formats a question as Markdown for a chat or as rows for a terminal. The subject of an approval is verbatim and set
//! apart, so that no part of it can pass for the question or its choices.

use unicode_width::UnicodeWidthChar;

use crate::domain::{Question, QuestionPart};
use crate::visible_text::{markdown, printable, visible, visible_line};

/// How much of a subject is shown in one place.
#[derive(Debug, Clone, Copy)]
pub struct TextLimit {
    pub lines: usize,
    /// In UTF-16 code units, as chat platforms count.
    pub units: usize,
}

/// Leaves room for the question and its choices in one message.
pub const CHAT: TextLimit = TextLimit {
    lines: 40,
    units: 2400,
};
pub const TERMINAL: TextLimit = TextLimit {
    lines: 200,
    units: 20_000,
};
/// Parts beyond this number are only counted.
const MOST_PARTS: usize = 8;

/// The part of a subject that is shown.
#[derive(Debug, Clone, PartialEq)]
pub struct Cut<'a> {
    pub label: &'a str,
    pub text: String,
    /// The omitted whole lines, and the omitted characters of the last shown line.
    pub lines: usize,
    pub characters: usize,
}

impl Cut<'_> {
    pub fn left_out(&self) -> Option<String> {
        let some = |count: usize, what: &str| match count {
            0 => None,
            1 => Some(format!("1 {what}")),
            _ => Some(format!("{count} {what}s")),
        };
        let out = [some(self.characters, "character"), some(self.lines, "line")];
        let out: Vec<String> = out.into_iter().flatten().collect();
        (!out.is_empty()).then(|| format!("{} left out", out.join(" and ")))
    }
}

/// The beginning of each part, and the number of parts that are not shown. The parts share `room`.
pub fn cut(subject: &[QuestionPart], room: TextLimit) -> (Vec<Cut<'_>>, usize) {
    let shown = subject.len().min(MOST_PARTS);
    let mut left = room;
    let cuts = subject[..shown].iter().enumerate().map(|(at, part)| {
        let share = shown - at;
        let (cut, used) = begin(
            part,
            TextLimit {
                lines: (left.lines / share).max(1),
                units: (left.units / share).max(1),
            },
        );
        left.lines = left.lines.saturating_sub(used.lines);
        left.units = left.units.saturating_sub(used.units);
        cut
    });
    (cuts.collect(), subject.len() - shown)
}

/// Whether the subject is too long for `room`.
pub fn exceeds(subject: &[QuestionPart], room: TextLimit) -> bool {
    let (cuts, parts) = cut(subject, room);
    parts > 0 || cuts.iter().any(|cut| cut.left_out().is_some())
}

fn begin(part: &QuestionPart, room: TextLimit) -> (Cut<'_>, TextLimit) {
    let text = visible(&part.text);
    let all = text.trim_end_matches('\n');
    let (mut shown, mut units, mut lines, mut characters) = (String::new(), 0, 0, 0);
    for line in all.split('\n').take(room.lines) {
        let free = room.units - units;
        let fitting = within(line, free);
        // Only the first line may be cut. Any other line is shown whole or not at all.
        if fitting.len() < line.len() && lines > 0 {
            break;
        }
        if lines > 0 {
            shown.push('\n');
        }
        shown.push_str(fitting);
        characters = line[fitting.len()..].chars().count();
        units = (units + length(fitting) + 1).min(room.units);
        lines += 1;
    }
    let cut = Cut {
        label: &part.label,
        text: shown,
        lines: all.split('\n').count() - lines,
        characters,
    };
    (cut, TextLimit { lines, units })
}

fn length(text: &str) -> usize {
    text.chars().map(char::len_utf16).sum()
}

fn within(text: &str, units: usize) -> &str {
    let mut used = 0;
    let end = text.char_indices().find(|(_, c)| {
        used += c.len_utf16();
        used > units
    });
    end.map_or(text, |(at, _)| &text[..at])
}

/// Where the reader finds the whole subject, if it was cut.
#[derive(Debug, Clone, Copy)]
pub enum Whole<'a> {
    /// In a file that was sent before the question.
    Attached,
    At(&'a str),
    Nowhere,
}

impl Whole<'_> {
    fn in_words(self, is_markdown: bool) -> String {
        match self {
            Whole::Attached => "The whole is in the file above.".to_owned(),
            Whole::At(path) if is_markdown => {
                format!("The whole is in {}", markdown(&visible_line(path)))
            }
            Whole::At(path) => format!("The whole is in {}", visible_line(path)),
            Whole::Nowhere => "The whole could not be saved as a file.".to_owned(),
        }
    }
}

const CODES: &str = "Hidden characters are shown as codes.";

/// The question in Markdown, with numbered choices.
pub fn in_chat(question: &Question, whole: Whole<'_>) -> String {
    let mut text = printable(&question.ask).trim_end().to_owned();
    let (cuts, parts) = cut(&question.subject, CHAT);
    for cut in &cuts {
        text.push_str(&format!(
            "\n\n{}:\n{}",
            markdown(&visible_line(cut.label)),
            block(&cut.text)
        ));
        if let Some(left_out) = cut.left_out() {
            text.push_str(&format!("\n({left_out})"));
        }
    }
    for note in notes(question, &cuts, parts, whole, true) {
        text.push_str(&format!("\n\n{note}"));
    }
    if !question.choices.is_empty() {
        text.push('\n');
    }
    for (at, choice) in question.choices.iter().enumerate() {
        let choice = markdown(&visible_line(choice));
        text.push_str(&format!("\n{}. {choice}", at + 1));
    }
    if let Some(how) = how(question) {
        text.push_str(&format!("\n\n{how}"));
    }
    text
}

/// Text as a code block. The fence is longer than any run of its mark in the text.
fn block(text: &str) -> String {
    const LONGEST: usize = 64;
    for mark in ['`', '~'] {
        let longest = text.split(|c| c != mark).map(str::len).max();
        let longest = longest.unwrap_or_default().max(2);
        if longest < LONGEST {
            let fence = mark.to_string().repeat(longest + 1);
            return format!("{fence}\n{text}\n{fence}");
        }
    }
    // Both fences would be too long for a message, so the block is indented.
    let lines = text.split('\n').map(|line| format!("\n    {line}"));
    lines.collect()
}

/// Notes about the subject as a whole.
fn notes(
    question: &Question,
    cuts: &[Cut<'_>],
    parts: usize,
    whole: Whole<'_>,
    is_markdown: bool,
) -> Vec<String> {
    let mut notes = Vec::new();
    if parts > 0 {
        notes.push(format!("({parts} more left out)"));
    }
    if parts > 0 || cuts.iter().any(|cut| cut.left_out().is_some()) {
        notes.push(whole.in_words(is_markdown));
    }
    let is_coded = |part: &QuestionPart| visible(&part.text) != part.text;
    if question.subject.iter().any(is_coded) {
        notes.push(CODES.to_owned());
    }
    notes
}

fn how(question: &Question) -> Option<&'static str> {
    match (question.choices.is_empty(), question.open) {
        (true, _) => None,
        (false, true) => Some("Answer with a number, or in your own words."),
        (false, false) => Some("Answer with a number."),
    }
}

/// The question as rows of a terminal. Each row of the subject begins with a bar, also if `width` wraps a line.
pub fn in_terminal(question: &Question, whole: Whole<'_>, width: Option<usize>) -> String {
    let mut text = printable(&question.ask).trim_end().to_owned();
    let (cuts, parts) = cut(&question.subject, TERMINAL);
    for cut in &cuts {
        text.push_str(&format!("\n{}:", visible_line(cut.label)));
        for line in cut.text.split('\n') {
            for (at, row) in rows(line, width).iter().enumerate() {
                let bar = if at == 0 { '│' } else { '┆' };
                text.push_str(&format!("\n  {bar} {row}"));
            }
        }
        if let Some(left_out) = cut.left_out() {
            text.push_str(&format!("\n  ({left_out})"));
        }
    }
    for note in notes(question, &cuts, parts, whole, false) {
        text.push_str(&format!("\n{note}"));
    }
    if let Some(choices) = choices(question) {
        text.push_str(&format!("\n{choices}"));
    }
    text
}

/// The choices for a terminal, and how to answer.
pub fn choices(question: &Question) -> Option<String> {
    let numbered = question.choices.iter().enumerate();
    let mut lines: Vec<String> = numbered
        .map(|(at, choice)| format!("{}. {}", at + 1, visible_line(choice)))
        .collect();
    lines.push(how(question)?.to_owned());
    Some(lines.join("\n"))
}

/// Wraps a line into rows that fit behind the bar.
fn rows(line: &str, width: Option<usize>) -> Vec<String> {
    const BAR: usize = 4;
    let line = line.replace('\t', "    ");
    let Some(width) = width.map(|width| width.saturating_sub(BAR).max(8)) else {
        return vec![line];
    };
    let (mut rows, mut used) = (vec![String::new()], 0);
    for c in line.chars() {
        let columns = c.width().unwrap_or_default();
        if used + columns > width {
            rows.push(String::new());
            used = 0;
        }
        used += columns;
        if let Some(row) = rows.last_mut() {
            row.push(c);
        }
    }
    rows
}

/// The whole subject, for a file.
pub fn whole(subject: &[QuestionPart]) -> String {
    let part = |part: &QuestionPart| {
        let (label, text) = (visible_line(&part.label), visible(&part.text));
        format!("{label}:\n{text}\n")
    };
    subject.iter().map(part).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use pulldown_cmark::{Event, Parser, Tag, TagEnd};

    use super::*;

    fn question(subject: Vec<QuestionPart>) -> Question {
        Question {
            ask: "May I run this?".into(),
            subject,
            choices: vec!["Yes".into(), "No".into()],
            open: false,
        }
    }

    /// The code blocks of a text, as a Markdown reader sees them.
    fn code(markdown: &str) -> Vec<String> {
        let (mut blocks, mut inside) = (Vec::new(), false);
        for event in Parser::new(markdown) {
            match event {
                Event::Start(Tag::CodeBlock(_)) => {
                    blocks.push(String::new());
                    inside = true;
                }
                Event::End(TagEnd::CodeBlock) => inside = false,
                Event::Text(text) if inside => blocks.last_mut().unwrap().push_str(&text),
                _ => {}
            }
        }
        blocks
    }

    #[test]
    fn what_is_approved_is_shown_verbatim_and_choices_stand_outside() {
        let command = "[ls]: x\nrm -rf *.o __pycache__ ``` ````\n1. No\nAnswer with a number.";
        let text = in_chat(
            &question(vec![QuestionPart::new("Command", command)]),
            Whole::Nowhere,
        );
        assert_eq!(code(&text), [format!("{command}\n")]);
        assert!(
            text.ends_with("`````\n\n1. Yes\n2. No\n\nAnswer with a number."),
            "{text}"
        );
    }

    #[test]
    fn a_long_text_is_cut_and_says_how_much_is_left_out() {
        let lines: String = (0..100).map(|n| format!("line {n}\n")).collect();
        let long = QuestionPart::new("Input", lines);
        let text = in_chat(&question(vec![long.clone()]), Whole::Attached);
        assert_eq!(code(&text)[0].lines().count(), 40, "{text}");
        assert!(text.contains("(60 lines left out)"), "{text}");
        assert!(text.contains("The whole is in the file above."), "{text}");

        // Each part is shown in part, and a single long line is cut too.
        let wide = QuestionPart::new("Change", "x".repeat(9000));
        let text = in_chat(&question(vec![long, wide]), Whole::At("/a_b"));
        assert_eq!(code(&text).len(), 2);
        assert!(text.contains("characters left out"), "{text}");
        assert!(text.contains("The whole is in /a\\_b"), "{text}");
        assert!(length(&text) < 3800, "{}", length(&text));

        let many = vec![QuestionPart::new("Change", "x"); 30];
        let text = in_chat(&question(many), Whole::Attached);
        assert!(text.contains("(22 more left out)"), "{text}");
    }

    #[test]
    fn a_terminal_shows_every_row_of_it_behind_a_bar() {
        let command = format!("ls\u{1b}[2K{}1. Yes\n2. No", " ".repeat(40));
        let shown = in_terminal(
            &question(vec![QuestionPart::new("Command", command)]),
            Whole::Nowhere,
            Some(40),
        );
        let expected = "May I run this?\nCommand:\n  │ ls\\x1b[2K                           \n  ┆              1. Yes\n  │ 2. No\nHidden characters are shown as codes.\n1. Yes\n2. No\nAnswer with a number.";
        assert_eq!(shown, expected);
    }

    #[test]
    fn no_run_of_marks_ends_the_block_or_fills_the_message() {
        for text in [
            "`".repeat(2000),
            format!("{}\n{}", "`".repeat(1000), "~".repeat(1000)),
        ] {
            let shown = in_chat(
                &question(vec![QuestionPart::new("Command", text.as_str())]),
                Whole::Nowhere,
            );
            assert_eq!(code(&shown), [format!("{text}\n")]);
            assert!(length(&shown) < 3000, "{}", length(&shown));
        }
    }

    #[test]
    fn a_label_cannot_pass_for_another_choice() {
        let sly = Question {
            choices: vec!["No\n2. *Yes*".into()],
            ..question(Vec::new())
        };
        let shown = in_chat(&sly, Whole::Nowhere);
        assert!(shown.contains("\n1. No\\\\x0a2. \\*Yes\\*\n"), "{shown}");
    }

    proptest! {
        #[test]
        fn any_text_comes_out_of_its_block_as_it_went_in(
            text in prop::collection::vec(prop::sample::select(vec![
                "`", "```", "~~~", "\n", " ", "    ", "*", "_", "[a]: b", "<b>", "\\", "x", "1. ", "> ", "\u{1b}", "\u{202e}", "é",
            ]), 0..60)
        ) {
            let text = text.concat();
            let shown = in_chat(&question(vec![QuestionPart::new("Command", text.as_str())]), Whole::Nowhere);
            let expected = visible(&text);
            let expected = expected.trim_end_matches('\n');
            let lines: Vec<&str> = expected.split('\n').take(CHAT.lines).collect();
            let found = code(&shown).remove(0);
            prop_assert_eq!(found, format!("{}\n", lines.join("\n")));
        }
    }
}
