//! Gets the token of the bot, and checks it on the platform before anything is written.

use std::io::Read;
use std::path::Path;

use super::{Guide, ask, refused};
use crate::cli::CliError;
use crate::cli::diagnose_process::{DiagnoseProcess, unexpected};
use crate::cli::output::BOLD;
use crate::config::{self, Config, Overrides};
use crate::platform;
use crate::protocol::{DiagnoseAnswer, DiagnoseRequest};

/// No token is longer than this.
const LONGEST_TOKEN: u64 = 4096;
/// How often a person may give a token.
const TRIES: usize = 4;

/// The platform with a token that it accepts.
pub(super) struct SignedIn {
    /// The token to write. `None` keeps the present one.
    pub(super) token: Option<String>,
    /// With the token in it.
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
        given: Option<&Path>,
    ) -> Result<SignedIn, CliError> {
        let before = config::load(platform::schema(), overrides)?;
        let mut token = self.token(&before, given).await?;
        let mut tries = 1;
        loop {
            let rejected = match self.check(overrides, token.clone()).await? {
                Ok(signed_in) => {
                    self.out
                        .line(format!("It is the token of {}.", signed_in.bot))?;
                    return Ok(signed_in);
                }
                Err(rejected) => rejected,
            };
            if !self.asks || tries == TRIES {
                return Err(rejected);
            }
            self.out.complain(&rejected)?;
            let question = "Another token, or Enter to check the same one again:";
            let another = ask::secret(self.out, question).await?;
            if !another.is_empty() {
                token = Some(another);
            }
            tries += 1;
        }
    }

    /// The token to write. `None` keeps the present one.
    async fn token(
        &self,
        config: &Config,
        given: Option<&Path>,
    ) -> Result<Option<String>, CliError> {
        if let Some(path) = given {
            return read_token(path).map(Some);
        }
        let present = config
            .platform(self.descriptor.name)
            .is_some_and(|p| p.has_credentials());
        if !self.asks {
            return match present {
                true => Ok(None),
                false => Err(refused(
                    "no_token",
                    "there is no token yet",
                    "name its file with --token-file, or run this in a terminal",
                )),
            };
        }
        self.out.line(self.out.styled(BOLD, "The bot"))?;
        if !present {
            let mut steps = self.descriptor.setup.iter();
            steps.try_for_each(|step| self.out.line(step))?;
        }
        let question = match present {
            true => "Another token, or Enter to keep the present one:",
            false => "The token (it is not shown):",
        };
        let token = ask::secret(self.out, question).await?;
        match (token.is_empty(), present) {
            (false, _) => Ok(Some(token)),
            (true, true) => Ok(None),
            (true, false) => Err(refused(
                "no_token",
                "there is no token",
                "run this again when you have one",
            )),
        }
    }

    /// The inner error says why the platform does not accept the token.
    async fn check(
        &self,
        overrides: &Overrides,
        token: Option<String>,
    ) -> Result<Result<SignedIn, CliError>, CliError> {
        let mut process = DiagnoseProcess::start(overrides)?;
        let mut overrides = overrides.clone();
        if let Some(token) = &token {
            overrides.values.extend([
                (self.key(self.token_setting())?, token.clone()),
                (self.key("enabled")?, "true".to_owned()),
            ]);
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
        Ok(match (account, findings.first()) {
            (Some(bot), Some(found)) if found.grade == "good" => Ok(SignedIn {
                token,
                config,
                bot,
                process,
            }),
            (_, found) => {
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

    /// The setting that holds the token.
    pub(super) fn token_setting(&self) -> &'static str {
        let mut credentials = self.descriptor.all_credentials();
        credentials.next().map_or("token", |token| token.setting)
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
