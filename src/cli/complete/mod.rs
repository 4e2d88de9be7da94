//! Invoked by `hermesctl completions` and, from its scripts, by `hermesctl __complete`.
//!
//! The scripts contain no verbs. Each Tab runs `hermesctl __complete SHELL -- …`, which walks the definition of the
//! command line. An error only means fewer completions: it is never printed.

mod line;
mod values;

use clap::{Arg, ArgAction, Command, CommandFactory};

use super::CliError;
use super::args::{Args, GlobalArgs};
use super::output::Output;
use line::Line;
pub(super) use values::ValueSource;

const BASH: &str = include_str!("../../../contrib/completions/hermesctl.bash");
const ZSH: &str = include_str!("../../../contrib/completions/hermesctl.zsh");
const FISH: &str = include_str!("../../../contrib/completions/hermesctl.fish");

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  source <(hermesctl completions bash)\n  hermesctl completions zsh > ~/.zfunc/_hermesctl\n  hermesctl completions fish > ~/.config/fish/completions/hermesctl.fish"
)]
pub struct CompletionsArgs {
    /// The shell.
    pub shell: Shell,
}

#[derive(Debug, Clone, Copy, PartialEq, clap::ValueEnum)]
pub enum Shell {
    Bash,
    Zsh,
    Fish,
}

#[derive(Debug, clap::Args)]
pub struct CompleteArgs {
    pub shell: Shell,
    /// From bash: the line up to the cursor, and the word there as bash splits it. From other shells: the words up to
    /// the cursor.
    #[arg(last = true)]
    pub words: Vec<String>,
}

pub(super) fn print_script(out: &Output, wish: &CompletionsArgs) -> Result<(), CliError> {
    let script = match wish.shell {
        Shell::Bash => BASH,
        Shell::Zsh => ZSH,
        Shell::Fish => FISH,
    };
    out.text(script.trim_end())
}

/// The candidates at the cursor.
#[derive(Debug, PartialEq)]
pub(super) enum Offer {
    Words(Vec<Candidate>),
    Files,
    Directories,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Candidate {
    pub(super) value: String,
    pub(super) about: String,
}

impl Candidate {
    pub(super) fn new(value: impl Into<String>, about: impl Into<String>) -> Candidate {
        Candidate {
            value: value.into(),
            about: about.into(),
        }
    }
}

/// Answers a script: one line with the kind of answer, then one candidate per line. Bash gets them quoted for
/// insertion. Other shells get a tab and a description behind each.
pub(super) async fn answer(
    out: &Output,
    args: &GlobalArgs,
    wish: &CompleteArgs,
) -> Result<(), CliError> {
    let (line, before, current) = match (wish.shell, wish.words.as_slice()) {
        (Shell::Bash, [line, word]) => {
            let line = Line::read(line, word);
            let mut words = line.words.clone();
            let current = words.pop().unwrap_or_default();
            words.drain(..words.len().min(1));
            (Some(line), words, current)
        }
        (Shell::Fish, [before @ .., current]) => (None, before.to_vec(), line::unquoted(current)),
        (Shell::Zsh, [before @ .., current]) => (None, before.to_vec(), current.clone()),
        _ => return Ok(()),
    };
    let command = Args::command();
    let spot = find_spot(&command, &before, &current);
    let values = ValueSource::new(args, &spot.given);
    let offer = offer(&command, &spot, &values).await;
    let list = match offer {
        Offer::Files => return out.text("files"),
        Offer::Directories => return out.text("directories"),
        Offer::Words(list) => list,
    };
    let mut text = String::from("words");
    for Candidate { value, about } in list {
        let whole = format!("{}{value}", spot.head);
        let shown = match (&line, wish.shell) {
            (Some(line), _) => line.as_typed(&whole),
            (None, Shell::Fish) => format!("{whole}\t{about}"),
            (None, _) => format!("{value}\t{about}"),
        };
        text.push('\n');
        text.push_str(shown.trim_end_matches('\t'));
    }
    out.text(&text)
}

/// The position of the cursor in the command line.
struct Spot<'a> {
    path: Vec<&'a str>,
    command: &'a Command,
    /// The argument whose value is being typed. `None` for a verb or an option.
    arg: Option<&'a Arg>,
    /// `--option=`, if the value is typed behind it.
    head: String,
    /// The typed part of the word.
    word: String,
    options_over: bool,
    verbs_too: bool,
    /// Options that were given already, with their values.
    given: Vec<(String, String)>,
}

fn find_spot<'a>(root: &'a Command, before: &[String], current: &str) -> Spot<'a> {
    let mut spot = Spot {
        path: Vec::new(),
        command: root,
        arg: None,
        head: String::new(),
        word: current.to_owned(),
        options_over: false,
        verbs_too: false,
        given: Vec::new(),
    };
    let mut positionals = 0;
    for word in before {
        if let Some(arg) = spot.arg.take() {
            let name = arg.get_id().to_string();
            spot.given.push((name, word.clone()));
        } else if spot.options_over || !word.starts_with('-') || word == "-" {
            match spot.command.find_subcommand(word) {
                Some(verb) if positionals == 0 && !spot.options_over => {
                    spot.command = verb;
                    spot.path.push(verb.get_name());
                }
                _ => positionals += 1,
            }
        } else if word == "--" {
            spot.options_over = true;
        } else {
            let (name, value) = match word.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (word.as_str(), None),
            };
            if let Some(arg) = option(root, spot.command, name) {
                match value {
                    None if arg.get_action().takes_values() => spot.arg = Some(arg),
                    value => {
                        let value = value.unwrap_or_default().to_owned();
                        spot.given.push((arg.get_id().to_string(), value));
                    }
                }
            }
        }
    }
    if spot.arg.is_some() {
        return spot;
    }
    if !spot.options_over && current.starts_with('-') {
        if let Some((name, value)) = current.split_once('=') {
            spot.arg = option(root, spot.command, name).filter(|a| a.get_action().takes_values());
            spot.head = format!("{name}=");
            spot.word = value.to_owned();
        }
        return spot;
    }
    spot.verbs_too = positionals == 0 && !spot.options_over;
    let mut own = spot.command.get_positionals();
    let last = spot.command.get_positionals().last();
    let repeats = |arg: &&Arg| matches!(arg.get_action(), ArgAction::Append);
    spot.arg = own.nth(positionals).or_else(|| last.filter(repeats));
    spot
}

/// The options of a verb, and the global ones.
fn options<'a>(root: &'a Command, command: &'a Command) -> impl Iterator<Item = &'a Arg> {
    let global = root.get_arguments().filter(|arg| arg.is_global_set());
    let own = command.get_arguments().filter(|arg| !arg.is_global_set());
    own.chain(global)
        .filter(|arg| !arg.is_positional() && !arg.is_hide_set())
}

fn option<'a>(root: &'a Command, command: &'a Command, typed: &str) -> Option<&'a Arg> {
    options(root, command).find(|arg| match typed.strip_prefix("--") {
        Some(long) => arg.get_long() == Some(long),
        None => arg
            .get_short()
            .is_some_and(|short| typed == format!("-{short}")),
    })
}

async fn offer(root: &Command, spot: &Spot<'_>, values: &ValueSource) -> Offer {
    let mut list = Vec::new();
    if let Some(arg) = spot.arg {
        match values.offer(&spot.path, arg, &spot.word).await {
            Offer::Words(values) => list = values,
            files => return files,
        }
    } else if !spot.options_over && spot.word.starts_with('-') && spot.head.is_empty() {
        let given = |arg: &Arg| spot.given.iter().any(|(name, _)| *name == *arg.get_id());
        let again = |arg: &Arg| matches!(arg.get_action(), ArgAction::Append);
        let options = options(root, spot.command).filter(|arg| !given(arg) || again(arg));
        list.extend(options.filter_map(|arg| {
            let help = arg.get_help().map(ToString::to_string);
            Some(Candidate::new(
                format!("--{}", arg.get_long()?),
                help.unwrap_or_default(),
            ))
        }));
        list.push(Candidate::new("--help", "Print help"));
    }
    if spot.verbs_too {
        let verbs = spot
            .command
            .get_subcommands()
            .filter(|verb| !verb.is_hide_set());
        list.extend(verbs.map(|verb| {
            let about = verb.get_about().map(ToString::to_string);
            Candidate::new(verb.get_name(), about.unwrap_or_default())
        }));
    }
    list.retain(|candidate| candidate.value.starts_with(&spot.word));
    Offer::Words(list)
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn offered(line: &str) -> Vec<String> {
        let command = Args::command();
        let mut words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let current = words.pop().unwrap();
        let spot = find_spot(&command, &words, &current);
        match offer(&command, &spot, &ValueSource::without_config()).await {
            Offer::Words(list) => list.into_iter().map(|c| c.value).collect(),
            other => vec![format!("{other:?}")],
        }
    }

    #[tokio::test]
    async fn a_spot_in_the_line_gets_what_fits_there() {
        for (line, expected) in [
            ("hando", &["handoff", "handoffs"][..]),
            ("__", &[]),
            ("handoff tel", &["telegram"]),
            ("--json handoff tel", &["telegram"]),
            ("--home /x handoff tel", &["telegram"]),
            ("handoff --note telegram loc", &["local"]),
            ("handoff local --no", &["--note"]),
            ("handoff local --note x --de", &["--detach"]),
            ("handoff local x", &[]),
            ("handoffs s", &["show"]),
            ("sessions export x --format ", &["json", "markdown"]),
            ("sessions export x --format=m", &["markdown"]),
            ("sessions export x -o ", &["Files"]),
            ("--home ", &["Directories"]),
            ("agents test ec", &["echo"]),
            ("chat --resume la", &["last"]),
            ("chat --title la", &[]),
            ("completions ", &["bash", "zsh", "fish"]),
            ("events --topic pla", &["platform"]),
            ("events --topic platform --topic lo", &["local"]),
            ("pair revoke tel", &["telegram"]),
            ("sessions -- li", &[]),
            ("nonsense more ", &[]),
        ] {
            assert_eq!(offered(line).await, expected, "{line:?}");
        }
    }

    /// Every value is either completed or listed as free.
    #[tokio::test]
    async fn no_value_is_forgotten() {
        const FREE: [&str; 13] = [
            "title",
            "note",
            "timeout",
            "pickup_timeout",
            "limit",
            "last",
            "words",
            "code",
            "home_channel",
            "allow",
            "owner",
            "since",
            "unit",
        ];
        fn walk(command: &Command, path: &mut Vec<String>, found: &mut Vec<(Vec<String>, Arg)>) {
            for arg in command
                .get_arguments()
                .filter(|a| a.get_action().takes_values())
            {
                found.push((path.clone(), arg.clone()));
            }
            for verb in command.get_subcommands().filter(|verb| !verb.is_hide_set()) {
                path.push(verb.get_name().to_owned());
                walk(verb, path, found);
                path.pop();
            }
        }
        let (mut found, mut path) = (Vec::new(), Vec::new());
        walk(&Args::command(), &mut path, &mut found);
        assert!(found.len() > 20, "{}", found.len());
        for (path, arg) in found {
            let path: Vec<&str> = path.iter().map(String::as_str).collect();
            let known = values::value_kind(&path, &arg).is_some();
            let free = FREE.contains(&arg.get_id().as_str());
            assert!(known != free, "{path:?} {}", arg.get_id());
        }
    }
}
