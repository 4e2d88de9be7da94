//! What `hermesctl setup` asks for: the workspace, its channels and its people.

use serde_json::Value;

use super::Slack;
use super::failure::Failure;
use super::scopes::lacking;
use crate::platform::{Account, Finding, PlatformError, PossibleHome, Server};

/// The most channels that are listed.
const MOST: usize = 1000;
const PAGE: &str = "200";

impl Slack {
    /// The scopes that a handoff and its conversation need.
    pub(super) async fn missing_scopes(&self) -> Vec<Finding> {
        if let Err(error) = self.sign_in_bot().await {
            return vec![Finding::bad("slack token", error.to_string(), "try again")];
        }
        let missing = lacking(&self.scopes()).into_iter();
        let needed = missing.filter(|(feature, _)| feature.needed);
        needed
            .map(|(feature, scopes)| {
                Finding::bad(
                    "slack scopes",
                    format!("{} needs {}", feature.what, scopes.join(", ")),
                    "add them at api.slack.com/apps (OAuth & Permissions) and install the app again",
                )
            })
            .collect()
    }

    /// A bot token belongs to one workspace.
    pub(super) async fn workspace(&self) -> Result<Server, PlatformError> {
        let (answer, _) = self.api.auth_test().await?;
        let text = |field: &str| answer[field].as_str().unwrap_or_default().to_owned();
        Ok(Server {
            id: text("team_id"),
            name: text("team"),
        })
    }

    /// The channels that the bot can see, those with the bot first, and the private chat with the owner.
    pub(super) async fn possible_homes(
        &self,
        owner: Option<&Account>,
    ) -> Result<Vec<PossibleHome>, Failure> {
        let me = self.me();
        let mut channels: Vec<(bool, PossibleHome)> = Vec::new();
        let mut cursor = String::new();
        while channels.len() < MOST {
            let mut params = vec![
                ("types", self.listed_types()),
                ("exclude_archived", "true"),
                ("limit", PAGE),
            ];
            if !cursor.is_empty() {
                params.push(("cursor", &cursor));
            }
            let page = self.api.ask("conversations.list", &params).await?;
            let listed = page["channels"].as_array().into_iter().flatten();
            channels.extend(listed.filter_map(|channel| home(channel, &me.name)));
            cursor = page["response_metadata"]["next_cursor"]
                .as_str()
                .unwrap_or_default()
                .to_owned();
            if cursor.is_empty() {
                break;
            }
        }
        channels.sort_by_key(|(is_member, home)| (!is_member, home.name.to_lowercase()));
        let private = owner.map(|owner| PossibleHome {
            chat: owner.id.clone(),
            name: owner.name.clone(),
            kind: "private messages with you".to_owned(),
            missing: Vec::new(),
        });
        let channels = channels.into_iter().map(|(_, home)| home);
        Ok(channels.chain(private).collect())
    }

    /// Private channels need a scope of their own.
    fn listed_types(&self) -> &'static str {
        match self.has_scope("groups:read") {
            true => "public_channel,private_channel",
            false => "public_channel",
        }
    }

    pub(super) async fn user(&self, id: &str) -> Result<Account, PlatformError> {
        let unknown = || {
            PlatformError::Permanent(format!(
                "{id} is not the id of a person in this workspace: it begins with U or W"
            ))
        };
        if !super::address::is_person(id) {
            return Err(unknown());
        }
        let answer = match self.api.ask("users.info", &[("user", id)]).await {
            Err(failure) if failure.is("user_not_found") => return Err(unknown()),
            // Without the scope for names, the id is believed.
            Err(failure) if failure.is("missing_scope") => {
                return Ok(Account {
                    id: id.to_owned(),
                    name: id.to_owned(),
                });
            }
            answer => answer?,
        };
        let user = &answer["user"];
        if user["is_bot"] == true || user["deleted"] == true {
            return Err(unknown());
        }
        let names = [
            &user["profile"]["display_name"],
            &user["real_name"],
            &user["name"],
        ];
        let mut names = names.iter().filter_map(|name| name.as_str());
        let name = names.find(|name| !name.is_empty()).unwrap_or(id);
        Ok(Account {
            id: id.to_owned(),
            name: name.to_owned(),
        })
    }
}

fn home(channel: &Value, bot: &str) -> Option<(bool, PossibleHome)> {
    let id = channel["id"].as_str()?;
    let is_member = channel["is_member"] == true;
    let kind = match channel["is_private"] == true {
        true => "private channel",
        false => "channel",
    };
    let home = PossibleHome {
        chat: id.to_owned(),
        name: format!("#{}", channel["name"].as_str().unwrap_or(id)),
        kind: kind.to_owned(),
        missing: match is_member {
            true => Vec::new(),
            false => vec![format!("/invite @{bot}")],
        },
    };
    Some((is_member, home))
}
