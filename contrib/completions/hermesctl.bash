# Completions of hermesctl for bash (4 or later). In ~/.bashrc:  source <(hermesctl completions bash)
# or as a file of the name hermesctl in /usr/share/bash-completion/completions/.

_hermesctl() {
    local -a said
    # hermesctl reads the line itself: bash's own words lose what is quoted.
    mapfile -t said < <(hermesctl __complete bash -- "${COMP_LINE:0:COMP_POINT}" "$2" 2>/dev/null)
    COMPREPLY=("${said[@]:1}")
    case ${said[0]-} in
        files) compopt -o default ;;
        directories) compopt -o dirnames ;;
    esac
}

complete -F _hermesctl hermesctl
