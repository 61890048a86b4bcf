# Bash completion for milepost. The program itself finds the candidates.

_milepost() {
    # Bash also splits words at ':', '=' and '@'. Join the parts that no space separates.
    local rest=${COMP_LINE:0:COMP_POINT} words=() word i n=-1
    for ((i = 0; i <= COMP_CWORD; i++)); do
        if ((n < 0)) || [[ $rest == [[:space:]]* ]]; then
            n=$((n + 1))
            words[n]=
            rest=${rest#"${rest%%[![:space:]]*}"}
        fi
        if ((i == COMP_CWORD)); then
            word=$rest
        else
            word=${COMP_WORDS[i]}
        fi
        words[n]+=$word
        rest=${rest#"$word"}
    done

    # Bash replaces only what follows the last of these characters, and an '@' itself.
    local current=${words[n]} breaks= character
    for character in : = @; do
        [[ $COMP_WORDBREAKS == *"$character"* ]] && breaks+=$character
    done
    local tail=$current
    [[ -n $breaks ]] && tail=${current##*["$breaks"]}
    local prefix=${current%"$tail"}
    prefix=${prefix%@}

    local candidate
    COMPREPLY=()
    while IFS= read -r candidate || [[ -n $candidate ]]; do
        COMPREPLY+=("${candidate#"$prefix"}")
    done < <(MILEPOST_COMPLETE=bash milepost -- "${words[@]}" 2>/dev/null)
    if ((${#COMPREPLY[@]} == 1)) && [[ ${COMPREPLY[0]} == *[=/:@] ]]; then
        compopt -o nospace 2>/dev/null
    fi
}

if ((BASH_VERSINFO[0] > 4 || BASH_VERSINFO[0] == 4 && BASH_VERSINFO[1] >= 4)); then
    complete -o bashdefault -o default -o nosort -F _milepost milepost
else
    complete -o bashdefault -o default -F _milepost milepost
fi
