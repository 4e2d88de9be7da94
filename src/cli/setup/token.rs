//! Gets the token of the bot, and checks it on the platform before anything is written.

use std::io::Read;
use std::path::{Path, PathBuf};

use serde_json::json;

use super::{Guide, ask, refused};
use crate::cli::CliError;
use crate::cli::diagnose_process::{DiagnoseProcess, unexpected};
use crate::cli::output::BOLD;
use crate::config::{self, Config, Credential, Overrides};
use crate::platform;
use crate::protocol::{DiagnoseAnswer, DiagnoseRequest};

/// No token is longer than this.
const LONGEST_TOKEN: u64 = 4096;
/// How often a person may give a token.
const TRIES: usize = 4;

/// A setting that holds a token, and the token.
pub(super) type Token = (&'static str, String);

/// The platform with tokens that it accepts.
pub(super) struct SignedIn {
    /// The tokens to write. The others stay as they are.
    pub(super) tokens: Vec<Token>,
    /// With the tokens in it.
    pub(super) config: Config,
    /// The name of the bot.
    pub(super) bot: String,
    pub(super) process: DiagnoseProcess,
}

impl Guide<'_> {
    /// On a terminal, a token that is not accepted is asked for again.
    pub(super) async fn sign_in(
        &self,
        overrides: &Overrides,
        given: &[PathBuf],
    ) -> Result<SignedIn, CliError> {
        let before = config::load(platform::schema(), overrides)?;
        let mut tokens = self.tokens(&before, given).await?;
        let mut tries = 1;
        loop {
            let rejected = match self.check(overrides, &tokens).await? {
                Ok(signed_in) => {
                    let which = match self.credentials().len() {
                        1 => "It is the token of",
                        _ => "They are the tokens of",
                    };
                    self.out.line(format!("{which} {}.", signed_in.bot))?;
                    return Ok(signed_in);
                }
                Err(rejected) => rejected,
            };
            if !self.asks || tries == TRIES {
                return Err(rejected);
            }
            self.out.complain(&rejected)?;
            for credential in self.credentials() {
                let question = match self.credentials().len() {
                    1 => "Another token, or Enter to check the same one again:".to_owned(),
                    _ => format!("Another {}, or Enter to keep it:", credential.label),
                };
                let another = ask::secret(self.out, &question).await?;
                if !another.is_empty() {
                    tokens.retain(|(setting, _)| *setting != credential.setting);
                    tokens.push((credential.setting, another));
                }
            }
            tries += 1;
        }
    }

    fn credentials(&self) -> &'static [Credential] {
        let first = self.descriptor.credentials.first().copied();
        first.unwrap_or_default()
    }

    /// The tokens to write. The present ones stay where none is given.
    async fn tokens(&self, config: &Config, given: &[PathBuf]) -> Result<Vec<Token>, CliError> {
        let credentials = self.credentials();
        if given.len() > credentials.len() {
            let count = credentials.len();
            return Err(refused(
                "too_many_tokens",
                &format!(
                    "there are more files than tokens: {} has {count}",
                    self.descriptor.name
                ),
                "name one file for each token",
            ));
        }
        let mut tokens = Vec::new();
        for (credential, path) in credentials.iter().zip(given) {
            tokens.push((credential.setting, read_token(path)?));
        }
        let of_platform = config.platform(self.descriptor.name);
        let is_set = |setting: &str| {
            of_platform.is_some_and(|p| p.placeholder.is_none() && p.values.is_set(setting))
        };
        let rest = &credentials[given.len()..];
        if !self.asks {
            return match rest.iter().find(|credential| !is_set(credential.setting)) {
                None => Ok(tokens),
                Some(missing) => Err(refused(
                    "no_token",
                    &match credentials.len() {
                        1 => "there is no token yet".to_owned(),
                        _ => format!("there is no {} yet", missing.label),
                    },
                    "name its file with --token-file, or run this in a terminal",
                )),
            };
        }
        if rest.is_empty() {
            return Ok(tokens);
        }
        self.out.line(self.out.styled(BOLD, "The bot"))?;
        if !rest.iter().all(|credential| is_set(credential.setting)) {
            self.show_manifest()?;
            let mut steps = self.descriptor.setup.iter();
            steps.try_for_each(|step| self.out.line(step))?;
        }
        for credential in rest {
            let present = is_set(credential.setting);
            let what = match credentials.len() {
                1 => "token",
                _ => credential.label,
            };
            let question = match present {
                true => format!("Another {what}, or Enter to keep the present one:"),
                false => format!("The {what} (it is not shown):"),
            };
            let token = ask::secret(self.out, &question).await?;
            match (token.is_empty(), present) {
                (false, _) => tokens.push((credential.setting, token)),
                (true, true) => {}
                (true, false) => {
                    return Err(refused(
                        "no_token",
                        &format!("there is no {what}"),
                        "run this again when you have one",
                    ));
                }
            }
        }
        Ok(tokens)
    }

    /// The inner error says why the platform does not accept the token.
    async fn check(
        &self,
        overrides: &Overrides,
        tokens: &[Token],
    ) -> Result<Result<SignedIn, CliError>, CliError> {
        let mut process = DiagnoseProcess::start(overrides)?;
        let mut overrides = overrides.clone();
        for (setting, token) in tokens {
            overrides.values.push((self.key(setting)?, token.clone()));
        }
        if !tokens.is_empty() {
            overrides
                .values
                .push((self.key("enabled")?, "true".to_owned()));
        }
        let config = config::load(platform::schema(), &overrides)?;
        let settings = overrides.values.into_iter();
        let request = DiagnoseRequest::Open {
            platform: self.descriptor.name.to_owned(),
            settings: settings
                .map(|(key, value)| (key.to_owned(), value))
                .collect(),
        };
        let DiagnoseAnswer::Platform {
            account, findings, ..
        } = process.ask(&request).await?
        else {
            return Err(unexpected());
        };
        let checked = &findings[..findings.len().min(self.credentials().len())];
        let accepted = checked.iter().all(|finding| finding.grade == "good");
        Ok(match (account, findings.first()) {
            // The findings begin with one for each token.
            (Some(bot), Some(_)) if accepted => Ok(SignedIn {
                tokens: tokens.to_vec(),
                config,
                bot,
                process,
            }),
            _ => {
                let rejected = checked.iter().find(|finding| finding.grade != "good");
                let found = rejected.or(findings.first());
                let message = found.map_or("the check gave no result".into(), |f| f.detail.clone());
                let remedy = found.and_then(|found| found.remedy.clone());
                let remedy = remedy.unwrap_or_else(|| "try again".into());
                Err(CliError::Failed {
                    message: format!("the token was not accepted: {message}"),
                    hint: Some(format!("nothing was written: {remedy}")),
                })
            }
        })
    }

    /// Shows the definition of the app before the tokens are asked for.
    fn show_manifest(&self) -> Result<(), CliError> {
        let Some(manifest) = self.descriptor.manifest else {
            return Ok(());
        };
        self.out
            .line("Create the app from this definition, which you can paste:\n")?;
        self.out.line((manifest.text)())?;
        self.out
            .line("Or open this link, which has it filled in:\n")?;
        self.out.line(format!("  {}\n", (manifest.link)()))
    }

    /// Prints the definition of the app alone, for a pipe.
    pub(super) fn print_manifest(&self) -> Result<(), CliError> {
        let Some(manifest) = self.descriptor.manifest else {
            let name = self.descriptor.name;
            return Err(refused(
                "no_manifest",
                &format!("an app of {name} needs no definition"),
                &format!("run `hermesctl setup {name}` without --manifest"),
            ));
        };
        let text = (manifest.text)();
        self.out
            .value(&json!({"manifest": text, "link": (manifest.link)()}))?;
        self.out.line(text)
    }

    /// The key of a setting of the platform.
    fn key(&self, field: &str) -> Result<&'static str, CliError> {
        let key = format!("platforms.{}.{field}", self.descriptor.name);
        let setting = platform::schema().find(&key);
        let setting = setting.ok_or_else(|| CliError::Other(format!("no setting {key}")))?;
        Ok(&setting.key)
    }
}

fn read_token(path: &Path) -> Result<String, CliError> {
    let mut text = String::new();
    let read = match path.as_os_str().to_str() {
        Some("-") => std::io::stdin()
            .take(LONGEST_TOKEN)
            .read_to_string(&mut text),
        _ => std::fs::File::open(path)
            .and_then(|file| file.take(LONGEST_TOKEN).read_to_string(&mut text)),
    };
    let shown = path.display();
    read.map_err(|e| {
        refused(
            "no_token",
            &format!("cannot read {shown}: {e}"),
            "nothing was written",
        )
    })?;
    match text.trim() {
        "" => Err(refused(
            "no_token",
            &format!("{shown} is empty"),
            "nothing was written",
        )),
        token => Ok(token.to_owned()),
    }
}
