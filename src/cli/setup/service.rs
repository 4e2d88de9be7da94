//! Enables the user service.

use tokio::process::Command;

use super::{Guide, ask};
use crate::cli::CliError;
use crate::cli::output::BOLD;

impl Guide<'_> {
    /// Enables the user service if it is wanted. Returns whether it did.
    pub(super) async fn service(&self, wanted: bool, daemon_runs: bool) -> Result<bool, CliError> {
        let (service, socket) = (
            format!("{}.service", self.unit),
            format!("{}.socket", self.unit),
        );
        let known = systemctl(&["cat", &service]).await;
        if !known {
            return match wanted {
                true => Err(CliError::Failed {
                    message: format!("cannot enable {service}: it is not installed for this user"),
                    hint: Some("install a package, or run contrib/install.sh: the rest of the setup is done".into()),
                }),
                false => Ok(false),
            };
        }
        let wanted = wanted
            || (self.asks
                && !daemon_runs
                && {
                    self.out.line(self.out.styled(BOLD, "\nThe service"))?;
                    self.out.line(
                    "As a user service, hermesd starts when you log in and ends when you log out. To keep it running while you are\n\
                      logged out, run `loginctl enable-linger`.",
                )?;
                    ask::yes(self.out, "Enable and start it?").await?
                });
        if wanted && !systemctl(&["enable", "--now", &socket, &service]).await {
            return Err(CliError::Failed {
                message: "cannot enable the service".into(),
                hint: Some(format!(
                    "see `systemctl --user status {}`: the rest of the setup is done",
                    self.unit
                )),
            });
        }
        Ok(wanted)
    }
}

async fn systemctl(arguments: &[&str]) -> bool {
    let mut command = Command::new("systemctl");
    command
        .arg("--user")
        .args(arguments)
        .stdin(std::process::Stdio::null());
    let output = command.output().await;
    output.is_ok_and(|output| output.status.success())
}
