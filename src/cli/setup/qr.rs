//! Draws QR codes with half blocks.

use std::io::IsTerminal;

use anstyle::{AnsiColor, Style};
use qrcode::{Color, EcLevel, QrCode};

use crate::cli::CliError;
use crate::cli::output::Output;

/// The empty modules around the code.
const MARGIN: usize = 2;
/// Dark on light, whatever colours the terminal has.
const PAPER: Style = Style::new()
    .fg_color(Some(anstyle::Color::Ansi(AnsiColor::Black)))
    .bg_color(Some(anstyle::Color::Ansi(AnsiColor::BrightWhite)));

/// Prints the text as a QR code if the output is a terminal that has room for it.
pub(super) fn print(out: &Output, text: &str) -> Result<(), CliError> {
    let is_dumb = std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb");
    if is_dumb || !std::io::stdout().is_terminal() {
        return Ok(());
    }
    // Without colours, the background is taken for dark.
    let Some(rows) = rows(text, out.has_colour()) else {
        return Ok(());
    };
    let width = rows.first().map_or(0, |row| row.chars().count());
    if width > out.width() {
        return Ok(());
    }
    rows.iter()
        .try_for_each(|row| out.line(out.styled(PAPER, row)))
}

/// The rows of characters, each for two rows of modules. `ink_is_dark`: a drawn half block is a dark module.
fn rows(text: &str, ink_is_dark: bool) -> Option<Vec<String>> {
    let code = QrCode::with_error_correction_level(text, EcLevel::L).ok()?;
    let size = code.width();
    let is_inked = |x: usize, y: usize| {
        let inside = |at: usize| at.checked_sub(MARGIN).filter(|at| *at < size);
        let dark = match (inside(x), inside(y)) {
            (Some(x), Some(y)) => code[(x, y)] == Color::Dark,
            _ => false,
        };
        dark == ink_is_dark
    };
    let all = size + 2 * MARGIN;
    let row = |y: usize| {
        (0..all).map(
            move |x| match (is_inked(x, y), y + 1 < all && is_inked(x, y + 1)) {
                (true, true) => '█',
                (true, false) => '▀',
                (false, true) => '▄',
                (false, false) => ' ',
            },
        )
    };
    Some((0..all).step_by(2).map(|y| row(y).collect()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_half_block_is_a_module_of_the_code() {
        let link = format!("https://chat.example/invite?{}", "x".repeat(100));
        for ink_is_dark in [true, false] {
            let rows = rows(&link, ink_is_dark).unwrap();
            let code = QrCode::with_error_correction_level(&link, EcLevel::L).unwrap();
            let all = code.width() + 2 * MARGIN;
            assert_eq!(
                (rows.len(), rows[0].chars().count()),
                (all.div_ceil(2), all)
            );
            for y in 0..code.width() {
                for x in 0..code.width() {
                    let (x_shown, y_shown) = (x + MARGIN, y + MARGIN);
                    let shown = rows[y_shown / 2].chars().nth(x_shown).unwrap();
                    let ink = match y_shown % 2 {
                        0 => "█▀",
                        _ => "█▄",
                    };
                    let dark = ink.contains(shown) == ink_is_dark;
                    assert_eq!(dark, code[(x, y)] == Color::Dark, "{x}, {y}");
                }
            }
        }
    }
}
