//! The people in the workspaces: what they do to channels, to the app and to the bot.

use serde_json::json;

use super::app::{SCOPES, set};
use super::world::{ChannelKind, Standing, Team, User, World};
use super::{BOT_NAME, Slack, TEAM, TOKEN};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Person {
    pub id: &'static str,
    pub name: &'static str,
    pub real_name: &'static str,
}

/// Tests allow her.
pub const ADA: Person = Person {
    id: "U07ADA00042",
    name: "ada",
    real_name: "Ada Lovelace",
};

/// A member of the same workspace whom no test allows.
pub const BEN: Person = Person {
    id: "U07BEN00043",
    name: "ben",
    real_name: "Ben B.",
};

/// Somebody of another workspace.
pub const CLEO: Person = Person {
    id: "U07CLEO0044",
    name: "cleo",
    real_name: "Cleo C.",
};

impl World {
    /// A workspace in which the app is installed.
    pub fn install(&mut self, id: &str, name: &str, token: &str, people: &[Person]) {
        let suffix = id.trim_start_matches('T');
        let team = Team {
            id: id.to_owned(),
            name: name.to_owned(),
            domain: name.to_lowercase(),
            enterprise: None,
            bot_user: format!("U{suffix}BOT"),
            bot_id: format!("B{suffix}BOT"),
            token: token.to_owned(),
            standing: Standing::Valid,
            scopes: set(SCOPES),
        };
        let bot = User {
            team: id.to_owned(),
            name: BOT_NAME.to_owned(),
            real_name: "Hermes".to_owned(),
            bot_id: Some(team.bot_id.clone()),
            deleted: false,
        };
        self.users.insert(team.bot_user.clone(), bot);
        self.teams.insert(id.to_owned(), team);
        for person in people {
            self.add_person(id, person);
        }
    }

    /// The first workspace of a test.
    pub fn with_first_team() -> World {
        let mut world = World::default();
        world.install(TEAM, "Work", TOKEN, &[ADA, BEN]);
        world
    }
}

impl Slack {
    /// Another workspace with the app and with these people. Its token is given.
    pub fn workspace(&self, id: &str, name: &str, people: &[Person]) -> String {
        let token = format!(
            "xoxb-{}-0000000000-abcdefghijklmnopqrstuvwx",
            id.to_lowercase()
        );
        self.change(|world| world.install(id, name, &token, people));
        token
    }

    /// The workspace belongs to an organisation.
    pub fn belongs_to(&self, team: &str, enterprise: &str, name: &str) {
        self.change(|world| {
            let team = world.teams.get_mut(team).expect("a workspace");
            team.enterprise = Some((enterprise.to_owned(), name.to_owned()));
        });
    }

    /// A channel with everybody of the workspace in it, the bot too.
    pub fn channel_in(&self, team: &str, kind: ChannelKind, name: &str) -> String {
        self.change(|world| {
            let users = world.users.iter().filter(|(_, user)| user.team == team);
            let members = users.map(|(id, _)| id.clone()).collect();
            let channel = world.add_channel(team, kind, name);
            channel.members = members;
            channel.id.clone()
        })
    }

    pub fn public_channel(&self, name: &str) -> String {
        self.channel_in(TEAM, ChannelKind::Public, name)
    }

    pub fn private_channel(&self, name: &str) -> String {
        self.channel_in(TEAM, ChannelKind::Private, name)
    }

    /// The direct channel of a person with the bot of their workspace.
    pub fn direct(&self, person: &Person) -> String {
        self.group_direct(&[*person])
    }

    /// The direct channel of several people with the bot.
    pub fn group_direct(&self, people: &[Person]) -> String {
        let ids: Vec<String> = people.iter().map(|person| person.id.to_owned()).collect();
        self.change(|world| {
            let team = world.users[&ids[0]].team.clone();
            world.direct(&team, &ids).0
        })
    }

    /// A person brings the bot into a channel.
    pub fn invites_bot(&self, channel: &str, person: &Person) {
        self.change(|world| {
            let bot = world.team_of(channel).bot_user.clone();
            world.join(channel, &bot, Some(person.id));
        });
    }

    /// A person removes the bot from a channel.
    pub fn removes_bot(&self, channel: &str) {
        self.change(|world| world.remove_bot(channel));
    }

    /// A person joins a channel.
    pub fn joins(&self, channel: &str, person: &Person) {
        self.change(|world| world.join(channel, person.id, None));
    }

    /// A person leaves a channel without a word.
    pub fn leaves(&self, channel: &str, person: &Person) {
        self.change(|world| world.channel_mut(channel).members.remove(person.id));
    }

    pub fn archives(&self, channel: &str) {
        self.change(|world| world.archive(channel, true, ADA.id));
    }

    pub fn unarchives(&self, channel: &str) {
        self.change(|world| world.archive(channel, false, ADA.id));
    }

    /// Only admins may post in a channel from now on.
    pub fn restricts(&self, channel: &str) {
        self.change(|world| world.channel_mut(channel).restricted = true);
    }

    /// The account of a person is deactivated.
    pub fn deactivates(&self, person: &Person) {
        self.change(|world| world.users.get_mut(person.id).expect("a user").deleted = true);
    }

    /// The user of another bot in the first workspace. Its id is given.
    pub fn other_bot(&self) -> String {
        self.change(|world| {
            let (user, bot) = (world.new_id('U'), world.new_id('B'));
            let value = User {
                team: TEAM.to_owned(),
                name: "build".to_owned(),
                real_name: "Build".to_owned(),
                bot_id: Some(bot),
                deleted: false,
            };
            world.users.insert(user.clone(), value);
            user
        })
    }

    /// A person revokes the token of the bot.
    pub fn revokes_token(&self) {
        self.stands(TEAM, Standing::Revoked);
    }

    /// A person removes the app from the workspace.
    pub fn uninstalls(&self) {
        self.stands(TEAM, Standing::Inactive);
    }

    /// What becomes of the token of a workspace.
    pub fn stands(&self, team: &str, standing: Standing) {
        self.change(|world| {
            let installed = world.teams.get_mut(team).expect("a workspace");
            installed.standing = standing;
            let bot = installed.bot_user.clone();
            let ts = world.new_ts();
            let (name, event) = match standing {
                Standing::Valid => return,
                Standing::Revoked => {
                    let tokens = json!({"bot": [bot], "oauth": []});
                    let event = json!({"type": "tokens_revoked", "tokens": tokens, "event_ts": ts});
                    ("tokens_revoked", event)
                }
                Standing::Inactive => {
                    let event = json!({"type": "app_uninstalled", "event_ts": ts});
                    ("app_uninstalled", event)
                }
            };
            world.emit(team, name, event);
        });
    }

    /// What becomes of the app-level token.
    pub fn app_token_stands(&self, standing: Standing) {
        self.change(|world| world.app.standing = standing);
    }

    pub fn gives_scope(&self, scope: &str) {
        self.change(|world| {
            let team = world.teams.get_mut(TEAM).expect("a workspace");
            team.scopes.insert(scope.to_owned());
        });
    }

    pub fn removes_scope(&self, scope: &str) {
        self.change(|world| {
            let team = world.teams.get_mut(TEAM).expect("a workspace");
            team.scopes.remove(scope);
        });
    }

    /// The events that the app subscribes to, and no others.
    pub fn subscribes(&self, events: &[&str]) {
        self.change(|world| world.app.events = set(events));
    }

    /// The app subscribes to one more event.
    pub fn subscribes_to(&self, event: &str) {
        self.change(|world| world.app.events.insert(event.to_owned()));
    }
}
