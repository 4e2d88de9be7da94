//! Who calls: tokens, and the scopes that they have.

use super::errors::ApiError;
use super::methods::TokenKind;
use super::request::Call;
use super::world::{Standing, World};

impl World {
    /// The scopes of the caller, as the headers have them.
    pub fn provided(&self, call: &Call) -> String {
        let scopes = match call.method.token {
            TokenKind::App => Some(&self.app.scopes),
            TokenKind::Bot => self.teams.get(&call.team).map(|team| &team.scopes),
        };
        let scopes = scopes.into_iter().flatten();
        scopes.cloned().collect::<Vec<_>>().join(",")
    }

    /// Checks the token and its scopes, and finds the workspace.
    pub fn authorize(&self, call: &mut Call) -> Result<(), ApiError> {
        let token = call.token.clone().ok_or("not_authed")?;
        if token.is_empty() {
            return Err("not_authed".into());
        }
        let is_apps = token == self.app.token;
        let team = self.teams.values().find(|team| team.token == token);
        let standing = match (is_apps, team) {
            (true, _) => self.app.standing,
            (false, Some(team)) => team.standing,
            (false, None) => return Err("invalid_auth".into()),
        };
        match standing {
            Standing::Valid => {}
            Standing::Revoked => return Err("token_revoked".into()),
            Standing::Inactive => return Err("account_inactive".into()),
        }
        let kind = match is_apps {
            true => TokenKind::App,
            false => TokenKind::Bot,
        };
        if kind != call.method.token {
            return Err("not_allowed_token_type".into());
        }
        if kind == TokenKind::App && !call.token_in_header {
            return Err("invalid_auth".into());
        }
        call.team = team.map(|team| team.id.clone()).unwrap_or_default();
        let needed = call.method.scopes;
        let has = |scope: &&str| self.has_scope(call, scope);
        match needed.is_empty() || needed.iter().any(has) {
            true => Ok(()),
            false => Err(ApiError::missing_scope(
                &needed.join(","),
                &self.provided(call),
            )),
        }
    }

    fn has_scope(&self, call: &Call, scope: &str) -> bool {
        match call.method.token {
            TokenKind::App => self.app.scopes.contains(scope),
            TokenKind::Bot => self.teams[&call.team].scopes.contains(scope),
        }
    }

    /// Checks a scope that depends on the arguments.
    pub fn need_scope(&self, call: &Call, scope: &str) -> Result<(), ApiError> {
        match self.has_scope(call, scope) {
            true => Ok(()),
            false => Err(ApiError::missing_scope(scope, &self.provided(call))),
        }
    }

    /// Whether the bearer token of a download is one that may read files. Its workspace then.
    pub fn may_read_files(&self, token: Option<&str>) -> Option<&str> {
        let token = token?.strip_prefix("Bearer ")?;
        let mut teams = self.teams.values();
        let team = teams.find(|team| team.token == token && team.standing == Standing::Valid)?;
        team.scopes.contains("files:read").then_some(&*team.id)
    }
}
