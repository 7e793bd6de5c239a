(ns arrowwood.arguments-test
  "Tests that misspelled options and columns without an order are refused, and that messages are of limited length."
  (:require
   [arrowwood.core :as aw]
   [arrowwood.impl.arguments :as arguments]
   [arrowwood.programs :as programs]
   [clojure.java.io :as io]
   [clojure.string :as str]
   [clojure.test :refer [deftest is]])
  (:import
   (java.io File)
   (java.nio.file Files)
   (java.util HashMap HashSet LinkedHashMap Map)))

(defn- write-file
  "Writes a file of two rows, and returns it."
  ^File []
  (let [folder (programs/temp-folder)
        csv (io/file folder "n.csv")
        file (io/file folder "n.arrow")]
    (spit csv "n,x\n1,1.5\n2,2.5\n")
    (aw/write (aw/read-csv csv) file)
    file))

(defn- new-table
  "Returns the path of a table that doesn't exist yet."
  ^File []
  (io/file (programs/temp-folder) "t"))

(defn- thrown-by [call]
  (try
    (call)
    nil
    (catch Exception e e)))

(defn- message-of [call] (some-> (thrown-by call) ex-message))

(defn- refused? [call] (instance? IllegalArgumentException (thrown-by call)))

(def ^:private max-message-length 2500)

(def ^:private long-text (str/join (repeat 1000000 "x")))

(def ^:private long-vector (vec (range 1000000)))

;; ---- options ----

(defn- option-cases
  "Returns, for each function with options: a call with given options, the known ones, and misspelled ones with the option
  that is meant."
  []
  (let [file (write-file)
        folder (.getParent file)
        ds (aw/open file)
        table (new-table)
        with-writer (fn [options work]
                      (with-open [writer (aw/writer (new-table) "n: int64" options)] (work writer)))]
    (aw/commit! (aw/append! (aw/writer table "n: int64") [1]))
    {#'aw/open
     {:call #(aw/open file %)
      :known [:validate :copy :strict :partial :arena]
      :misspelled {:valdiate :validate :coppy :copy}}

     #'aw/open-bytes
     {:call #(aw/open-bytes (Files/readAllBytes (.toPath file)) %)
      :known [:validate :copy :strict :partial]
      :misspelled {:validated :validate "copy" :copy}}

     #'aw/read-csv
     {:call #(aw/read-csv (io/file folder "n.csv") %)
      :known [:schema :dictionary :delimiter]
      :misspelled {:delimeter :delimiter :dict :dictionary}}

     #'aw/write
     {:call #(aw/write ds (io/file folder "w.arrow") %)
      :known [:format :compression :max-rows]
      :misspelled {:compress :compression :max_rows :max-rows :maxRows :max-rows}}

     #'aw/aggregate
     {:call #(aw/aggregate ds [] {:n [:count]} %)
      :known [:where]
      :misspelled {:were :where :wheer :where}}

     #'aw/chunks
     {:call #(aw/chunks (ds :n) %)
      :known [:checked :aligned]
      :misspelled {:check :checked :alligned :aligned}}

     #'aw/writer
     {:call #(with-writer % identity)
      :known [:sorted-by :late :index :dictionary :sync :sync-interval-ms :segment-rows :force]
      :misspelled {:sort-by :sorted-by :sorted_by :sorted-by :segment-row :segment-rows :indexes :index}}

     #'aw/commit!
     {:call (fn [options] (with-writer nil #(aw/commit! % options)))
      :known [:positions :durable]
      :misspelled {:position :positions :durably :durable}}

     #'aw/follow
     {:call #(.close ^java.lang.AutoCloseable (aw/follow table %))
      :known [:from :timeout-ms]
      :misspelled {:timeout :timeout-ms :form :from}}}))

(defn- has-options?
  "Returns true if the last parameter of a function is a map."
  [function]
  (some (fn [parameters]
          (or (= 'options (last parameters)) (map? (last parameters))))
        (:arglists (meta function))))

(deftest unknown-options-are-refused
  (let [cases (option-cases)]
    (is (= (set (filter has-options? (vals (ns-publics 'arrowwood.core)))) (set (keys cases)))
        "there is a case for each function with options")
    (doseq [[function {:keys [call known misspelled]}] cases]
      (is (nil? (thrown-by #(call nil))) (str function))
      (is (nil? (thrown-by #(call {}))) (str function))
      (doseq [option known]
        (is (str/includes? (:doc (meta function)) (str option)) (str function " documents " option)))
      (doseq [unknown (concat (keys misspelled) [:nothing nil (vec (range 1000))])]
        (let [exception (thrown-by #(call {unknown true}))
              message (ex-message exception)]
          (is (instance? IllegalArgumentException exception) (str function " " unknown))
          (is (str/includes? message (str "has no option " (arguments/printable unknown))) (str function))
          (is (str/includes? message (str "there are " (str/join ", " known))) (str function))))
      (doseq [[option meant] misspelled]
        (is (str/includes? (message-of #(call {option true})) (str "perhaps it is " meant ";"))
            (str function " " option)))
      (is (refused? #(call [:where 1])) (str function)))))

(deftest unknown-keys-of-fields-and-intervals-are-refused
  (let [table (new-table)
        misspelled-field {:name :n :type :int64 :nulable false}]
    (is (str/includes? (message-of #(aw/writer table [misspelled-field])) "perhaps it is :nullable"))
    (with-open [writer (aw/writer table "i: interval[month_day_nano]")]
      (is (str/includes? (message-of #(aw/append! writer {:i {:months 1 :dyas 2}})) "perhaps it is :days"))
      (aw/append! writer {:i {:months 1 :days 2}}))))

(deftest superfluous-arguments-of-conditions-and-aggregates-are-refused
  (let [ds (aw/open (write-file))]
    (doseq [condition [[:> :n] [:> :n 1 2] [:in :n 1 2] [:null :n 1] [:null] [:and] [:or] [:not]
                       [:not [:> :n 1] [:> :n 2]] [:= :n 1 :x 2] []]]
      (is (refused? #(aw/filter ds condition)) (str condition)))
    (is (= 1 (aw/row-count (aw/filter ds [:and [:> :n 1]]))))
    (doseq [aggregate [[:mean :n :x] [] :count nil]]
      (is (refused? #(aw/aggregate ds [] {:a aggregate})) (str aggregate)))))

;; ---- order of columns ----

(defn- table-columns
  "Creates a table with a schema, and returns the names of its columns."
  [schema]
  (with-open [writer (aw/writer (new-table) schema)]
    (mapv #(keyword (.name %)) (.fields (.schema writer)))))

(deftest columns-without-an-order-are-refused
  (let [names (mapv #(keyword (str "c" %)) (range 9))
        pairs (mapv #(vector % :int64) names)
        ordered-map (apply array-map (mapcat identity pairs))]
    (doseq [schema [(into {} pairs)
                    (hash-map :b :int64 :a :int64)
                    (set pairs)
                    (HashMap. {:b :int64 :a :int64})
                    (HashSet. pairs)]]
      (is (str/includes? (message-of #(table-columns schema)) "has none: give a vector") (str schema))
      (is (refused? #(aw/read-csv "nowhere.csv" {:schema schema}))))
    (doseq [schema [pairs ordered-map (into (sorted-map) pairs) (LinkedHashMap. ^Map ordered-map) (seq pairs)]]
      (is (= names (table-columns schema)) (str (class schema))))
    (is (= [:b :a] (table-columns {:b :int64 :a :int64}) (table-columns (array-map :b :int64 :a :int64))))
    (is (= [:a] (table-columns (hash-map :a :int64)) (table-columns #{[:a :int64]})) "a single column needs no order")
    (let [ds (aw/open (write-file))
          counts (mapv (fn [name] [name [:count]]) names)]
      (doseq [call [#(aw/select ds #{:n :x})
                    #(aw/select ds (HashSet. [:n :x]))
                    #(aw/aggregate ds #{:n :x} {:a [:count]})
                    #(aw/aggregate ds [] (hash-map :a [:count] :b [:count]))
                    #(aw/aggregate ds [] (into {} counts))]]
        (is (str/includes? (message-of call) "has none: give a vector")))
      (is (= names (mapv :name (aw/schema (aw/aggregate ds [] counts))))))))

;; ---- messages ----

(defn- call-with-timeout
  "Calls a function in another thread. Returns the class and message of what it throws, :returned, or :hangs."
  [function arguments]
  (let [outcome (promise)
        call (fn []
               (deliver outcome
                        (try
                          (apply function arguments)
                          :returned
                          ;; Also errors: an OutOfMemoryError or StackOverflowError is an outcome to report.
                          (catch Throwable e (str (class e) " " (ex-message e))))))]
    (doto (Thread. ^Runnable call)
      (.setDaemon true)
      (.start))
    (try
      (programs/await-value "the end of a call" outcome)
      (catch AssertionError _ :hangs))))

(def ^:private odd-arguments
  "Functions that make large or endless arguments."
  {"endless numbers" #(range)
   "endless maps" #(map (fn [n] {:n n}) (range))
   "endless nested" #(vector (range))
   "long text" (constantly long-text)
   "long vector" (constantly long-vector)
   "large map" (constantly (into {} (map (fn [n] [n n])) (range 100000)))
   "long keyword" (constantly (keyword long-text))
   "deep" (constantly (nth (iterate vector 1) 1000))
   "throwing" (constantly (map (fn [_] (throw (ex-info "lazily" {}))) [1 2]))})

(defn- public-functions []
  (filter #(and (:arglists (meta %)) (fn? @%) (not (:macro (meta %))))
          (vals (ns-publics 'arrowwood.core))))

(deftest messages-show-a-part-of-large-arguments
  (let [functions (public-functions)]
    (is (< 60 (count functions)))
    ;; Each function gets the same argument for all parameters, so that `append!` never reads endless rows: it refuses the
    ;; first argument, which is no writer.
    (doseq [function functions
            parameters (:arglists (meta function))
            :when (not-any? #{'&} parameters)
            [description argument] odd-arguments]
      (let [outcome (call-with-timeout @function (repeatedly (count parameters) argument))
            shown (if (string? outcome) (subs outcome 0 (min 300 (count outcome))) outcome)]
        (is (or (= :returned outcome)
                (and (string? outcome) (< (count outcome) max-message-length)))
            (str function " " parameters " of " description ": " shown))))))

(deftest messages-show-a-part-of-large-values
  (let [ds (aw/open (write-file))
        table (new-table)
        segment (aw/map (write-file))
        long-keyword (keyword long-text)
        many-digits (bigdec (apply str "1" (repeat 100000 "0")))
        count-rows {:a [:count]}
        with-nul (str long-text \u0000)]
    (with-open [writer (aw/writer table "n: int64, d: decimal128(5, 1), ts: timestamp[us], i: interval[month_day_nano]")]
      (doseq [[description call]
              {"condition of text" #(aw/filter ds long-text)
               "condition of many" #(aw/filter ds long-vector)
               "column of condition" #(aw/filter ds [:> long-text 1])
               "value of condition" #(aw/filter ds [:> :n long-text])
               "values of condition" #(aw/filter ds [:in :n (repeat 100000 "x")])
               "vector as value" #(aw/filter ds [:> :n long-vector])
               "operator" #(aw/filter ds [long-keyword :n 1])
               "column" #(ds long-text)
               "vector as column" #(ds long-vector)
               "select" #(aw/select ds [long-text])
               "aggregate" #(aw/aggregate ds [] {:a [long-keyword :n]})
               "column of aggregate" #(aw/aggregate ds [] {:a [:sum long-text]})
               "groups" #(aw/aggregate ds [long-text] count-rows)
               "options" #(aw/aggregate ds [] count-rows {long-text 1})
               "schema" #(aw/writer table long-text)
               "type" #(aw/writer table {:n long-text})
               "column of row" #(aw/append! writer {long-text 1})
               "cell" #(aw/append! writer {:n long-text})
               "vector as cell" #(aw/append! writer {:n long-vector})
               "digits" #(aw/append! writer {:d many-digits})
               "time" #(aw/append! writer {:ts long-text})
               "position" #(aw/commit! writer {:positions {long-text 1}})
               "position with NUL" #(aw/commit! writer {:positions {with-nul 1}})
               "path" #(aw/open long-text)
               "path with NUL" #(aw/open with-nul)
               "paths" #(aw/open long-vector)
               "between" #(aw/between ds long-text long-text)
               "index" #((ds :n) long-vector)
               "type of memory" #(aw/typed segment long-vector)}]
        (let [message (message-of call)]
          (is (and message (< (count message) max-message-length))
              (str description ": " (some-> message count))))))))

(deftest messages-repeat-numbers-as-given
  (let [ds (aw/open (write-file))
        csv (io/file (programs/temp-folder) "many.csv")
        times-256 #(apply aw/concat (repeat 256 %))]
    (spit csv (apply str "n\n" (repeat 65536 "1\n")))
    (doseq [call [#(nth ds -1) #(aw/row ds -1) #(nth (ds :n) -1) #(aw/head ds -1) #(aw/sample ds -1 0)]]
      (is (re-find #"-1" (message-of call)) (str call)))
    ;; More rows than an int can count.
    (let [large (times-256 (times-256 (aw/read-csv csv)))]
      (is (= 4294967296 (aw/row-count large)))
      (doseq [call [#(count large) #(count (large :n))]]
        (is (re-find #"4294967296 rows .*`row-count`" (message-of call)))))))
