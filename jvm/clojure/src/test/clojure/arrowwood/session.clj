(ns arrowwood.session
  "A page of the docs in a REPL: prints, as EDN, each block of code that has what it prints below it: its line, what the
  page says, and what was printed. Runs in the current folder."
  (:import
   (java.io PushbackReader StringReader StringWriter)))

(def ^:private fence #"(?ms)(?:^<!-- needs ([^\n]*?) -->\n)?^```(\w+)\n(.*?)^```$")

(defn- blocks [text]
  (let [matcher (re-matcher fence text)]
    (loop [blocks []]
      (if (.find matcher)
        (recur (conj blocks {:needs (.group matcher 1) :kind (.group matcher 2) :text (.group matcher 3)
                             :line (inc (count (filter #{\newline} (subs text 0 (.start matcher)))))}))
        blocks))))

(defn- printed
  "What a REPL prints for a text, without vars and nil."
  [text]
  (let [out (StringWriter.) reader (PushbackReader. (StringReader. text))]
    (binding [*out* out]
      (loop []
        (let [form (read {:eof ::end} reader)]
          (when-not (= ::end form)
            (let [value (eval form)]
              (when-not (or (nil? value) (var? value)) (prn value)))
            (recur)))))
    (str out)))

(defn -main [page & have]
  (let [results (binding [*ns* (create-ns 'user)]
                  (refer-clojure)
                  (loop [[{:keys [kind needs line text]} & [{next-kind :kind expected :text} :as more]] (blocks (slurp page))
                         results []]
                    (cond
                      (nil? kind) results
                      (not= "clojure" kind) (recur more results)
                      (and needs (not-any? #{needs} have)) (recur more (conj results {:line line :left-out needs}))
                      :else (let [said (printed text)]
                              (recur more (cond-> results
                                            (= "text" next-kind)
                                            (conj {:line line :expected expected :printed said})))))))]
    (prn results)
    (shutdown-agents)))
