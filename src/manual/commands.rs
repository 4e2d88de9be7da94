//! Generates the options, verbs and exit codes of the manuals from the definitions of the command lines.

use clap::{Arg, Command};

use super::roff::{example, literal, prose, sentence};
use super::{Part, part};

/// The options and verbs of a program whose verbs need no sections.
pub(super) fn options(command: &Command) -> String {
    let mut text = String::new();
    for arg in own_args(command) {
        text.push_str(&entry(arg));
    }
    text.push_str(&everywhere());
    for verb in command.get_subcommands().filter(|verb| !verb.is_hide_set()) {
        text.push_str(&format!(".TP\n.B {}\n", literal(verb.get_name())));
        text.push_str(&about(verb));
    }
    text
}

/// The options that every verb takes.
pub(super) fn global_options(command: &Command) -> String {
    let global = command.get_arguments().filter(|arg| arg.is_global_set());
    global.map(entry).collect::<String>() + &everywhere()
}

fn everywhere() -> String {
    ".TP\n.BR \\-h \", \" \\-\\-help\nPrint help.\n.TP\n.BR \\-V \", \" \\-\\-version\nPrint the version.\n".into()
}

/// One part per verb, with its subcommands.
pub(super) fn verbs(command: &Command) -> Vec<Part> {
    let shown = command.get_subcommands().filter(|verb| !verb.is_hide_set());
    shown
        .map(|verb| {
            let name = verb.get_name();
            part(format!("verb {name}"), section(verb, name))
        })
        .collect()
}

fn section(verb: &Command, path: &str) -> String {
    let mut text = format!(".SS {}\n", quoted(path));
    text.push_str(&format!(".B hermesctl {}\n", literal(path)));
    let below: Vec<&Command> = verb
        .get_subcommands()
        .filter(|v| !v.is_hide_set())
        .collect();
    let takes: Vec<String> = own_args(verb).map(usage).collect();
    if !takes.is_empty() {
        text.push_str(&format!("{}\n", takes.join("\n")));
    }
    if !below.is_empty() {
        let names: Vec<String> = below.iter().map(|v| literal(v.get_name())).collect();
        text.push_str(&format!("[{}]\n", names.join(" | ")));
    }
    text.push_str(".PP\n");
    text.push_str(&about(verb));
    for arg in own_args(verb) {
        text.push_str(&entry(arg));
    }
    let after = verb.get_after_help().map(ToString::to_string);
    let after = after.unwrap_or_default();
    let (words, examples) = after.split_once("Examples:").unwrap_or((&after, ""));
    if !words.trim().is_empty() {
        text.push_str(&format!(".PP\n{}", sentence(words.trim())));
    }
    let lines: Vec<&str> = examples
        .lines()
        .map(str::trim)
        .filter(|l| !l.is_empty())
        .collect();
    if !lines.is_empty() {
        text.push_str(&example(&lines));
    }
    for verb in below {
        text.push_str(&section(verb, &format!("{path} {}", verb.get_name())));
    }
    text
}

fn own_args(command: &Command) -> impl Iterator<Item = &Arg> {
    command
        .get_arguments()
        .filter(|arg| !arg.is_global_set() && !arg.is_hide_set())
        .filter(|arg| !matches!(arg.get_id().as_str(), "help" | "version"))
}

fn about(command: &Command) -> String {
    let about = command.get_about().map(ToString::to_string);
    let about = about.unwrap_or_else(|| panic!("{} has no description", command.get_name()));
    sentence(&about)
}

fn quoted(path: &str) -> String {
    if path.contains(' ') {
        format!("\"{}\"", literal(path))
    } else {
        literal(path)
    }
}

/// The name of the argument's value.
fn value(arg: &Arg) -> Option<String> {
    if !arg.get_action().takes_values() {
        return None;
    }
    let named = arg.get_value_names().and_then(|names| names.first());
    let name = named.map_or_else(
        || arg.get_id().as_str().to_ascii_uppercase(),
        ToString::to_string,
    );
    Some(name)
}

fn several(arg: &Arg) -> &'static str {
    match arg.get_action() {
        clap::ArgAction::Append => "\\&...",
        _ => "",
    }
}

fn usage(arg: &Arg) -> String {
    let value = value(arg);
    match (arg.get_long(), value) {
        (None, Some(value)) if arg.is_required_set() => {
            format!(".I {}{}", literal(&value), several(arg))
        }
        (None, value) => format!(
            ".RI [ {} ]{}",
            literal(&value.unwrap_or_default()),
            several(arg)
        ),
        (Some(long), None) => format!(".RB [ \\-\\-{} ]", literal(long)),
        (Some(long), Some(value)) => {
            format!(
                ".RB [ \\-\\-{} \\ \\c\n.IR {} ]{}",
                literal(long),
                literal(&value),
                several(arg)
            )
        }
    }
}

fn entry(arg: &Arg) -> String {
    let name = arg.get_id();
    let mut text = String::from(".TP\n");
    match (arg.get_long(), value(arg)) {
        (None, value) => text.push_str(&format!(".I {}\n", literal(&value.unwrap_or_default()))),
        (Some(long), value) => {
            let long = format!("\\-\\-{}", literal(long));
            let short = arg.get_short().map(|short| format!("\\-{short} \", \" "));
            match (short, value) {
                (None, None) => text.push_str(&format!(".B {long}\n")),
                (None, Some(value)) => {
                    text.push_str(&format!(".BI {long} \" {}\"\n", literal(&value)))
                }
                (Some(short), None) => text.push_str(&format!(".BR {short}{long}\n")),
                (Some(short), Some(value)) => {
                    text.push_str(&format!(
                        ".BR {short}{long} \" \\fI{}\\fP\"\n",
                        literal(&value)
                    ));
                }
            }
        }
    }
    let help = arg.get_help().map(ToString::to_string);
    let help = help.unwrap_or_else(|| panic!("{name} has no help text"));
    text.push_str(&sentence(&help));
    let default: Vec<String> = arg
        .get_default_values()
        .iter()
        .map(|value| value.to_string_lossy().into_owned())
        .collect();
    if arg.get_action().takes_values() && !default.is_empty() {
        text.push_str(&prose(&format!("The default is `{}`.", default.join(" "))));
    }
    let choices: Vec<String> = arg
        .get_possible_values()
        .iter()
        .filter(|_| arg.get_action().takes_values())
        .map(|value| format!("`{}`", value.get_name()))
        .collect();
    if !choices.is_empty() {
        text.push_str(&prose(&format!("One of {}.", choices.join(", "))));
    }
    text
}

/// The exit codes from the list in `--help`.
pub(super) fn exit_codes(command: &Command) -> String {
    let after = command.get_after_help().expect("exit codes").to_string();
    let codes = after.split("Exit codes:").nth(1).expect("exit codes");
    let mut text = String::new();
    for line in codes.lines().skip(1).take_while(|line| !line.is_empty()) {
        let (code, meaning) = line
            .trim()
            .split_once("  ")
            .expect("a code and its meaning");
        text.push_str(&format!(
            ".TP\n.B {code}\n{}",
            sentence(&capital(meaning.trim()))
        ));
    }
    text
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    match chars.next() {
        // The name of a file keeps its case.
        Some(first) if !text.starts_with("state.db") => {
            first.to_ascii_uppercase().to_string() + chars.as_str()
        }
        _ => text.to_owned(),
    }
}
